// A loop whose iterations run on several threads.
#pragma once

#include <cstddef>
#include <functional>

#include "lib/base/error.h"

namespace nxdkit {

using LoopBody = std::function<Status(size_t index)>;

// Runs body(0) to body(count - 1) on up to `threads` threads, the caller's among them; fewer if the
// system gives no more. Each takes the lowest index that is left. Stops at the first failure, and
// returns the error of the lowest index, the same with any number of threads. Results must be kept
// by index. kLimit when the system is out of memory.
Status ParallelFor(size_t count, int threads, const LoopBody& body);

// The same with a body for each thread, made in that thread: it holds the buffers.
Status ParallelFor(size_t count, int threads, const std::function<LoopBody()>& make_body);

}  // namespace nxdkit
