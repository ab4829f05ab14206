// PRIVATE to formats/ops/read: tensors that their format sees with more dimensions than the layout
// has, as the experts of a layer, which are [experts, rows, columns] in one and [experts * rows,
// columns] in the other.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/plan/slice.h"

namespace nxdkit::ops {

// A slice of the laid out tensor, and where it belongs in the packed bytes of the one that is seen.
struct LaidOutPart {
  Slice slice;
  Shape strides;   // in elements, of the packed bytes, per dimension of the layout
  int64_t at = 0;  // element
};

// Whether each dimension of `laid_out` is one or more of `seen`, in order.
bool SplitsDimensions(const Shape& laid_out, const Shape& seen);

// The parts that make `slice` of the tensor that is seen, whose bytes are packed with `strides`.
std::vector<LaidOutPart> LaidOutParts(const Shape& laid_out, const Shape& seen, const Slice& slice,
                                      const Shape& strides);

}  // namespace nxdkit::ops
