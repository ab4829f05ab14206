// PRIVATE to tests. The processor time that one input of a fuzz target may take: a reader with
// quadratic time fails like one that crashes.
#pragma once

namespace nxdkit {

// Far more than any input of the corpus takes, with sanitizers and on a shared machine.
inline constexpr int kMostSecondsPerInput = 10;

}  // namespace nxdkit
