#include "formats/fsdp/flat.h"

#include <algorithm>

namespace nxdkit::fsdp {

std::vector<FlatBox> BoxesOf(const Shape& shape, int64_t first, int64_t count) {
  std::vector<FlatBox> boxes;
  if (count == 0) return boxes;
  if (shape.empty()) return {{Box{{}, {}}, 0}};
  // Of each dimension, how many elements one step along it is.
  const Shape strides = RowMajorStrides(shape);
  const int64_t end = first + count;
  for (int64_t at = first; at < end;) {
    // The outermost dimension along which whole steps fit from here on.
    size_t d = 0;
    while (d + 1 < shape.size() && (at % strides[d] != 0 || end - at < strides[d])) ++d;
    const int64_t in_dim = at / strides[d] % shape[d];
    const int64_t steps = std::min((end - at) / strides[d], shape[d] - in_dim);
    Box box = WholeBox(shape);
    for (size_t e = 0; e < d; ++e) {
      box.lo[e] = at / strides[e] % shape[e];
      box.extent[e] = 1;
    }
    box.lo[d] = in_dim;
    box.extent[d] = steps;
    boxes.push_back({std::move(box), at - first});
    at += steps * strides[d];
  }
  return boxes;
}

}  // namespace nxdkit::fsdp
