// Private: sums of squares for the norms of diff.h, over packed elements in memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/tensor/dtype.h"

namespace nxdkit::ops {

// In F64. An element of A that is not finite counts in neither sum, nor does a pair whose
// difference is not finite in `update`.
struct Squares {
  double a = 0;       // of A's elements: ||A||^2
  double update = 0;  // of B's elements less A's: ||B - A||^2

  void Add(const Squares& next) {
    a += next.a;
    update += next.update;
  }
};

// The sums over `count` elements of types that are Comparable (diff_kernels.h); no alignment is
// assumed. A complex number counts as two elements. The same result for every instruction set.
Squares SumSquares(Dtype a_dtype, const std::byte* a, Dtype b_dtype, const std::byte* b,
                   int64_t count);

}  // namespace nxdkit::ops
