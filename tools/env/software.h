// PRIVATE to tools/: the vendor's software and its variables, as a bug report needs them.
#pragma once

#include <functional>

#include "lib/base/error.h"
#include "tools/env/section.h"

namespace nxdkit::tool {

// Packages of Python that are installed, found without running Python; and what neuronx-cc says of
// itself, or why it says nothing; it gets half a minute. Only the error of `poll`,
// where it is kInterrupted.
Result<Section> PackagesSection(const std::function<Status()>& poll);

// Variables of the environment that Neuron's software and nxdkit go by. Values that may be secret
// are hidden.
Section VariablesSection();

// The value, or "(hidden)" where it looks like a key, a token or a password, or its name does.
std::string WithoutSecrets(const std::string& name, const std::string& value);

}  // namespace nxdkit::tool
