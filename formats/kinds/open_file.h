// Opens one file of tensors, whatever its format.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/words.h"
#include "lib/base/error.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::kinds {

// safetensors or a flat state dict of torch, recognised by the first bytes. kUnsupported otherwise.
Result<TensorFile> OpenTensorFile(const std::string& path);

// A flat state dict of torch, with the tensors from the folder next to it if torch_xla's
// serialization stores them there (xser). Entries left out are reported in `warnings`, if given.
Result<TensorFile> OpenStateDict(const std::string& path,
                                 std::vector<std::string>* warnings = nullptr);

}  // namespace nxdkit::kinds
