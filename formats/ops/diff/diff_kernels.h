// The inner loops of diff.h, over packed elements in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "lib/tensor/dtype.h"

namespace nxdkit::ops {

// The allowed differences; nullopt: not tested. An element is within them if it satisfies each one
// that is given; if none is, if its bits are equal.
struct DiffLimits {
  std::optional<uint64_t> max_ulp;
  // |a - b| <= atol + rtol * max(|a|, |b|); if only one is given, the other is 0.
  std::optional<double> atol;
  std::optional<double> rtol;
};

// The differences between the elements of two tensors. Errors are |a - b|, relative ones are
// divided by max(|a|, |b|). They are computed in F32 for types of up to 32 bits, and in F64 beyond;
// sums in F64. A pair with a NaN whose bits are not equal, and a pair with an infinite error, are
// counted as such and in no other error.
struct DiffTally {
  uint64_t elements = 0;
  uint64_t changed = 0;   // bits differ, in the wider type
  uint64_t beyond = 0;    // not within the limits
  uint64_t nan = 0;       // one is a NaN, or both are with other bits
  uint64_t infinite = 0;  // an infinity, and something else
  // Counts of the changed ones that are neither: [0] at 0 ulps (zeros of two signs, or equal in the
  // narrower type), [1] at 1, [k] at more than 2^(k-2) and at most 2^(k-1).
  std::array<uint64_t, 66> ulps{};
  double max_abs = 0;
  double max_rel = 0;
  double sum_abs = 0;
  double sum_rel = 0;
  // The first element with the largest error, NaNs and infinities before all others; -1: none
  // differs.
  int64_t worst = -1;
  double worst_error = 0;  // its error; infinity for NaNs and infinities

  // Adds the tally of later elements; `next.worst` counts from the same element as ours.
  void Merge(const DiffTally& next);
};

// Whether elements of the two types can be compared: both floating, or the same whole-byte type.
bool Comparable(Dtype a, Dtype b);

// Compares `count` elements; no alignment is assumed. Ulps are counted in the type with the smaller
// mantissa, to which the other value is rounded; for integers they are the difference. A complex
// number counts as two elements. The same result for every instruction set.
DiffTally DiffElements(Dtype a_dtype, const std::byte* a, Dtype b_dtype, const std::byte* b,
                       int64_t count, const DiffLimits& limits);

}  // namespace nxdkit::ops
