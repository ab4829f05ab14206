#include "formats/ops/read/seen_shape.h"

#include <optional>

#include "lib/base/error.h"

namespace nxdkit::ops {
namespace {

// Of each dimension that is laid out the first that is seen of it, and one past the last.
std::optional<std::vector<size_t>> FirstDimensions(const Shape& laid_out, const Shape& seen) {
  std::vector<size_t> first{0};
  size_t d = 0;
  for (size_t l = 0; l < laid_out.size(); ++l) {
    if (d == seen.size()) return std::nullopt;
    int64_t length = seen[d++];
    while (length != laid_out[l] && d < seen.size()) length *= seen[d++];
    if (l + 1 == laid_out.size())
      for (; d < seen.size(); ++d) length *= seen[d];
    if (length != laid_out[l]) return std::nullopt;
    first.push_back(d);
  }
  if (d != seen.size()) return std::nullopt;
  return first;
}

// The next index of some dimensions within `extent`, row-major; false after the last.
bool Advance(Shape& index, const Shape& extent, const std::vector<size_t>& dims) {
  for (size_t i = dims.size(); i > 0; --i) {
    if (++index[dims[i - 1]] < extent[dims[i - 1]]) return true;
    index[dims[i - 1]] = 0;
  }
  return false;
}

}  // namespace

bool SplitsDimensions(const Shape& laid_out, const Shape& seen) {
  return FirstDimensions(laid_out, seen).has_value();
}

std::vector<LaidOutPart> LaidOutParts(const Shape& laid_out, const Shape& seen, const Slice& slice,
                                      const Shape& strides) {
  if (laid_out == seen) return {{slice, strides, 0}};
  const std::optional<std::vector<size_t>> first = FirstDimensions(laid_out, seen);
  NXDKIT_CHECK(first.has_value());
  const Shape extent = slice.extent();
  if (WholeBox(extent).Volume() == 0) return {};
  std::vector<size_t> outer;  // all but the last that is seen of each: one part for each index
  for (size_t l = 0; l < laid_out.size(); ++l)
    for (size_t d = (*first)[l]; d + 1 < (*first)[l + 1]; ++d) outer.push_back(d);
  std::vector<LaidOutPart> parts;
  Shape index(seen.size(), 0);
  do {
    LaidOutPart part;
    for (size_t l = 0; l < laid_out.size(); ++l) {
      const size_t last = (*first)[l + 1] - 1;
      int64_t before = 0;
      for (size_t d = (*first)[l]; d < last; ++d) {
        before = before * seen[d] + slice.begin[d] + index[d] * slice.step[d];
        part.at += index[d] * strides[d];
      }
      before *= seen[last];
      part.slice.begin.push_back(before + slice.begin[last]);
      part.slice.end.push_back(before + slice.end[last]);
      part.slice.step.push_back(slice.step[last]);
      part.strides.push_back(strides[last]);
    }
    parts.push_back(std::move(part));
  } while (Advance(index, extent, outer));
  return parts;
}

}  // namespace nxdkit::ops
