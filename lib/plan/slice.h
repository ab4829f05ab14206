// A part of a tensor with a step in each dimension: x[begin:end:step, ...].
#pragma once

#include <cstdint>

#include "lib/base/error.h"
#include "lib/plan/layout.h"

namespace nxdkit {

// The indices of each dimension: begin, begin + step, ... before end.
struct Slice {
  Shape begin;
  Shape end;
  Shape step;

  Shape extent() const;  // the number of indices in each dimension
  bool operator==(const Slice&) const = default;
};

Slice WholeSlice(const Shape& shape);
Slice SliceOf(const Box& box);
// A box of the slice's indices, as a slice of the tensor.
Slice PartOf(const Slice& slice, const Box& part);

// kUsage, with the dimension, what was found and what is allowed: 0 <= begin <= end <= length and
// step >= 1 in every dimension of `shape`.
Status CheckSlice(const Slice& slice, const Shape& shape);

}  // namespace nxdkit
