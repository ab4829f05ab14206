// What elements in memory are like: range, sum, and how many are no ordinary numbers.
#pragma once

#include <cstdint>
#include <limits>

#include "lib/tensor/dtype.h"

namespace nxdkit {

// What has been seen of a run of elements. min and max of a zero may have either sign.
struct Tally {
  uint64_t elements = 0;
  uint64_t nan = 0;
  uint64_t inf = 0;
  uint64_t zeros = 0;
  double min = std::numeric_limits<double>::infinity();  // of the finite elements, as is all below
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;

  void Merge(const Tally& next);
};

// Whether the dtype has an order and its elements have addresses: not complex, not F4 or F6.
bool HasTally(Dtype dtype);

// Tallies `count` elements of the host's byte order; no alignment is assumed. The sum is made in an
// order that depends on nothing but `count` and the values. HasTally(dtype) holds.
Tally TallyElements(Dtype dtype, const std::byte* elements, int64_t count);

}  // namespace nxdkit
