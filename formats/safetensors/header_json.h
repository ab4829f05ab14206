// PRIVATE: the schema of the header, checked event by event.
#pragma once

#include <cstdint>

#include "formats/safetensors/header.h"

namespace nxdkit::safetensors {

// Reads the header's JSON, the `bytes` bytes at offset 8. Accepts what the reference accepts,
// except a tensor entry that is an array and a dtype that is an object. Tensors may share a name,
// and metadata a key. kCorrupt: InvalidHeaderDeserialization. kLimit where a cap of limits.h is
// reached.
Result<Header> ReadHeaderJson(const File& file, uint64_t bytes);

}  // namespace nxdkit::safetensors
