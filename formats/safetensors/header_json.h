// PRIVATE: the schema of the header, checked event by event.
#pragma once

#include <cstdint>

#include "formats/safetensors/header.h"

namespace nxdkit::safetensors {

// The header's JSON, the `bytes` bytes at offset 8. Accepts what the reference accepts, less two
// things: a tensor entry that is an array, and a dtype that is an object. Tensors may have the same
// name, and metadata the same key. kCorrupt: InvalidHeaderDeserialization. kLimit where a cap of
// limits.h is met.
Result<Header> ReadHeaderJson(const File& file, uint64_t bytes);

}  // namespace nxdkit::safetensors
