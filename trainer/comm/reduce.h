// Sums over the ranks of a group, in rank order: ((x0 + x1) + x2) + ... for every element. Every
// rank ends with the same bits.
#pragma once

#include <span>

#include "trainer/comm/comm.h"

namespace nxdkit::trainer {

// values[i] becomes the sum over ranks. All ranks give the same size.
Status AllReduceSum(Comm& comm, std::span<float> values);
Status AllReduceSum(Comm& comm, std::span<double> values);

}  // namespace nxdkit::trainer
