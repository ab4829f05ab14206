// Writes and reads whole archives, the slow and obvious way, for tests and for torch_probe.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "formats/torch/archive.h"
#include "lib/base/error.h"
#include "lib/tensor/output.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::torch {

// The tensor's elements in row-major order, little-endian: element by element.
Result<std::string> LogicalBytes(const StoredTensor& tensor);

// Byte i of output tensor t: (131 i + 17 t + 7) mod 256, for booleans its lowest bit.
std::string PatternBytes(const OutputTensor& tensor, size_t index);

// The file that `encoder` describes, with PatternBytes for data.
std::string EncodedFile(const FileEncoder& encoder);

void WriteFile(const std::string& path, std::string_view contents);

// One line of JSON, in the form described at its twin in torch_values.py.
Result<std::string> JsonOf(const Archive& archive);

}  // namespace nxdkit::torch
