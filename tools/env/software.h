// PRIVATE to tools/: the vendor's software and its variables, as a bug report needs them.
#pragma once

#include <functional>

#include "lib/base/error.h"
#include "tools/env/section.h"

namespace nxdkit::tool {

// The installed Python packages, found without running Python; and neuronx-cc's own version, or why
// it gives none: it gets half a minute. Fails only with the error of `poll`, when that is
// kInterrupted.
Result<Section> PackagesSection(const std::function<Status()>& poll);

// The environment variables that Neuron's software and nxdkit use. Values that may be secret are
// hidden.
Section VariablesSection();

// The value, or "(hidden)" where it looks like a key, a token or a password, or its name does.
std::string WithoutSecrets(const std::string& name, const std::string& value);

}  // namespace nxdkit::tool
