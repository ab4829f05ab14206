// A loop whose turns are run by several threads.
#pragma once

#include <cstddef>
#include <functional>

#include "lib/base/error.h"

namespace nxdkit {

using LoopBody = std::function<Status(size_t index)>;

// Runs body(0) to body(count - 1) on up to `threads` threads, this one among them; fewer where the
// system gives no more. Each takes the lowest index that is left. Stops at the first failure; what
// is returned is that of the lowest index, the same with any number of threads. Results must be
// kept by index. Memory that the system does not give is kLimit.
Status ParallelFor(size_t count, int threads, const LoopBody& body);

// The same with a body of its own for each thread, made in that thread: it holds the buffers.
Status ParallelFor(size_t count, int threads, const std::function<LoopBody()>& make_body);

}  // namespace nxdkit
