// The one inner loop of all conversions: copies an n-dimensional box of elements between two
// strided memory areas, changing byte order and floating dtype on the way.
#pragma once

#include <cstddef>

#include "lib/tensor/dtype.h"

namespace nxdkit {

struct StridedCopy {
  Shape extent;
  Shape source_strides;  // elements; same rank as extent
  Shape output_strides;
  Dtype from = Dtype::kF32;
  Dtype to = Dtype::kF32;
  bool swap_source = false;  // the source is big-endian
};

// `source` and `output` point at the box's first element; no alignment is assumed. The areas must
// not overlap. Elements are whole bytes; Convertible(from, to) holds.
void RunStridedCopy(const StridedCopy& copy, const std::byte* source, std::byte* output);

// Whether the box is one dense run in both areas and its bytes need no change.
bool IsPlainRun(const StridedCopy& copy);

}  // namespace nxdkit
