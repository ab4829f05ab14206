// PRIVATE to formats/ops/read: tensors with fewer dimensions in their file than in the layout, such
// as torchtitan's projections, whose rows come in pairs: [rows, columns] in the checkpoint, and
// [rows / 2, 2, columns] in the layout.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/plan/slice.h"

namespace nxdkit::ops {

// A slice of the tensor in the layout, and its place in the packed bytes of the one in the file.
struct LaidOutPart {
  Slice slice;
  Shape strides;   // in elements, of the packed bytes, per dimension of the layout
  int64_t at = 0;  // element
};

// Whether each dimension of `seen` is one or more of `laid_out`, in order.
bool JoinsDimensions(const Shape& laid_out, const Shape& seen);

// The parts that make `slice` of the tensor in the file, whose bytes are packed with `strides`.
// JoinsDimensions must hold for the shapes.
std::vector<LaidOutPart> LaidOutParts(const Shape& laid_out, const Shape& seen, const Slice& slice,
                                      const Shape& strides);

}  // namespace nxdkit::ops
