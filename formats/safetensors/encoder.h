// Writes safetensors files, byte for byte as the reference writes them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/tensor/output.h"

namespace nxdkit::safetensors {

// The canonical file: tensors sorted by dtype descending then name bytes, compact header padded
// with spaces to 8 bytes, `__metadata__` first and sorted when not empty. kUsage on a duplicate
// name, the name "__metadata__", a dtype the format lacks; kLimit on a header over 100 MB.
Result<std::unique_ptr<FileEncoder>> Encode(std::vector<OutputTensor> tensors,
                                            const std::map<std::string, std::string>& metadata);

}  // namespace nxdkit::safetensors
