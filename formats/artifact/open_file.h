// Opens one file of tensors, whatever its format.
#pragma once

#include <string>

#include "lib/base/error.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::ops {

// safetensors or a flat state dict of torch, told by the first bytes. kUnsupported otherwise.
Result<TensorFile> OpenTensorFile(const std::string& path);

}  // namespace nxdkit::ops
