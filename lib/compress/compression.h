// What a stream may be compressed with.
#pragma once

#include <cstdint>

namespace nxdkit {

enum class Compression : uint8_t { kNone, kZstd, kGzip };

}  // namespace nxdkit
