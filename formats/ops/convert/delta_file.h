// PRIVATE to formats/ops: a file of what changed from one model to another, whatever the layouts of
// both.
#pragma once

#include "formats/ops/convert/destination.h"

namespace nxdkit::ops {

// What each thread takes beside the executor's buffers, whose chunks are blocks of the delta.
inline constexpr uint64_t kDeltaBytesPerThread = (uint64_t{1} << 20) + 17 * delta::kBlockBytes;

// `conversion` must outlive it.
std::unique_ptr<Destination> MakeDeltaFile(const ConvertRequest& request, Conversion& conversion);

}  // namespace nxdkit::ops
