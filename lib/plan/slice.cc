#include "lib/plan/slice.h"

#include "lib/base/errors.h"

namespace nxdkit {
namespace {

Status CheckRank(const Shape& given, std::string_view called, size_t rank) {
  if (given.size() == rank) return OkStatus();
  return BadUsage("the slice has {} numbers as {}, the tensor has {} dimensions", given.size(),
                  called, rank);
}

}  // namespace

Shape Slice::extent() const {
  Shape out(begin.size());
  for (size_t d = 0; d < out.size(); ++d)
    out[d] = end[d] > begin[d] ? (end[d] - begin[d] - 1) / step[d] + 1 : 0;
  return out;
}

Slice WholeSlice(const Shape& shape) {
  return {Shape(shape.size(), 0), shape, Shape(shape.size(), 1)};
}

Slice SliceOf(const Box& box) {
  Slice out{box.lo, box.lo, Shape(box.lo.size(), 1)};
  for (size_t d = 0; d < box.lo.size(); ++d) out.end[d] += box.extent[d];
  return out;
}

Slice PartOf(const Slice& slice, const Box& part) {
  Slice out = slice;
  for (size_t d = 0; d < part.lo.size(); ++d) {
    if (part.extent[d] == 0) {
      out.end[d] = out.begin[d];
      continue;
    }
    out.begin[d] += part.lo[d] * slice.step[d];
    out.end[d] = out.begin[d] + (part.extent[d] - 1) * slice.step[d] + 1;
  }
  return out;
}

Status CheckSlice(const Slice& slice, const Shape& shape) {
  NXDKIT_TRY(CheckRank(slice.begin, "begin", shape.size()));
  NXDKIT_TRY(CheckRank(slice.end, "end", shape.size()));
  NXDKIT_TRY(CheckRank(slice.step, "step", shape.size()));
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t begin = slice.begin[d];
    const int64_t end = slice.end[d];
    if (end < 0 || end > shape[d])
      return BadUsage("dimension {} of the slice: end {}, expected 0 to {}", d, end, shape[d]);
    if (begin < 0 || begin > end)
      return BadUsage("dimension {} of the slice: begin {}, expected 0 to {}, its end", d, begin,
                      end);
    if (slice.step[d] < 1)
      return BadUsage("dimension {} of the slice: step {}, expected 1 or more", d, slice.step[d]);
  }
  return OkStatus();
}

}  // namespace nxdkit
