// PRIVATE to tests. The processor time that one input of a fuzz target may take: a reader whose
// time grows with the square of its input fails as one that crashes does.
#pragma once

namespace nxdkit {

// Far more than any input of the corpus takes, with sanitizers and on a machine that is shared.
inline constexpr int kMostSecondsPerInput = 10;

}  // namespace nxdkit
