// The ways in which a stream may be compressed.
#pragma once

#include <cstdint>

namespace nxdkit {

enum class Compression : uint8_t { kNone, kZstd, kGzip };

}  // namespace nxdkit
