// Opens one file of tensors, whatever its format.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/words.h"
#include "lib/base/error.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::kinds {

// safetensors or a flat state dict of torch, told by the first bytes. kUnsupported otherwise.
Result<TensorFile> OpenTensorFile(const std::string& path);

// A flat state dict of torch, with the tensors of the folder beside it where torch_xla's
// serialization keeps them there (xser). What is left out is said in `warnings`, when given.
Result<TensorFile> OpenStateDict(const std::string& path,
                                 std::vector<std::string>* warnings = nullptr);

}  // namespace nxdkit::kinds
