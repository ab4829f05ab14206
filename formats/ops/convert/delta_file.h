// PRIVATE to formats/ops: writes a file with the changes from one model to another, whatever their
// layouts.
#pragma once

#include "formats/ops/convert/destination.h"

namespace nxdkit::ops {

// The memory of each thread besides the executor's buffers, whose chunks are blocks of the delta.
inline constexpr uint64_t kDeltaBytesPerThread = (uint64_t{1} << 20) + 17 * delta::kBlockBytes;

// `conversion` must outlive it.
std::unique_ptr<Destination> MakeDeltaFile(const ConvertRequest& request, Conversion& conversion);

}  // namespace nxdkit::ops
