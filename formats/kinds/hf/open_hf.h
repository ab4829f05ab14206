// PRIVATE to formats/kinds: a Hugging Face folder, or one of its files, opened.
#pragma once

#include <string>

#include "formats/artifact/artifact.h"

namespace nxdkit::ops {

Result<bool> IsHfFile(const std::string& path);
// Beside a trainer's shards lies the model as transformers takes it.
Result<std::string> PlaceOfHf(const std::string& path);
Status OpenHf(Artifact& artifact, const InputHints& hints);

}  // namespace nxdkit::ops
