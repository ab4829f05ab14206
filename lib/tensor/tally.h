// Statistics of elements in memory: range, sum, and the number that are not finite.
#pragma once

#include <cstdint>
#include <limits>

#include "lib/tensor/dtype.h"

namespace nxdkit {

// The statistics of a run of elements. A min or max of zero may have either sign.
struct Tally {
  uint64_t elements = 0;
  uint64_t nan = 0;
  uint64_t inf = 0;
  uint64_t zeros = 0;
  double min = std::numeric_limits<double>::infinity();  // of finite elements, as all below
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;

  void Merge(const Tally& next);
};

// Whether the dtype has an order and its elements have addresses: not complex, not F4 or F6.
bool HasTally(Dtype dtype);

// Tallies `count` elements in the host's byte order; no alignment is assumed. The order of the sum
// depends only on `count` and the values. HasTally(dtype) holds.
Tally TallyElements(Dtype dtype, const std::byte* elements, int64_t count);

}  // namespace nxdkit
