#include "formats/ops/read/seen_shape.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "lib/base/error.h"

namespace nxdkit::ops {
namespace {

// The first dimension of the layout for each one of the file, and one past the last.
std::optional<std::vector<size_t>> FirstDimensions(const Shape& laid_out, const Shape& seen) {
  std::vector<size_t> first{0};
  size_t d = 0;
  for (size_t s = 0; s < seen.size(); ++s) {
    if (d == laid_out.size()) return std::nullopt;
    int64_t length = laid_out[d++];
    while (length != seen[s] && d < laid_out.size()) length *= laid_out[d++];
    if (s + 1 == seen.size())
      for (; d < laid_out.size(); ++d) length *= laid_out[d];
    if (length != seen[s]) return std::nullopt;
    first.push_back(d);
  }
  if (d != laid_out.size()) return std::nullopt;
  return first;
}

// A dimension in the file, and its slice. In the layout it is `length / inner` times `inner`.
// Indices of the slice that are `period` apart have the same place among the inner ones: they form
// one part.
struct JoinedDimension {
  int64_t begin;
  int64_t step;
  int64_t count;
  int64_t inner;
  int64_t period;

  int64_t parts() const { return std::min(period, count); }
};

std::vector<JoinedDimension> DimensionsOf(const Shape& laid_out, const std::vector<size_t>& first,
                                          const Slice& slice) {
  const Shape extent = slice.extent();
  std::vector<JoinedDimension> dims;
  for (size_t s = 0; s < extent.size(); ++s) {
    int64_t inner = 1;
    for (size_t d = first[s] + 1; d < first[s + 1]; ++d) inner *= laid_out[d];
    const int64_t step = extent[s] > 1 ? slice.step[s] : 1;  // a lone index may have any
    dims.push_back({slice.begin[s], step, extent[s], inner, inner / std::gcd(step, inner)});
  }
  return dims;
}

// Adds the layout's dimensions for `dim`, at part `number` of it.
void AddDimension(const JoinedDimension& dim, int64_t number, int64_t stride,
                  std::span<const int64_t> inner_shape, LaidOutPart& part) {
  const int64_t index = dim.begin + number * dim.step;
  const int64_t count = (dim.count - number - 1) / dim.period + 1;
  const int64_t step = dim.period * dim.step / dim.inner;
  part.slice.begin.push_back(index / dim.inner);
  part.slice.end.push_back(index / dim.inner + (count - 1) * step + 1);
  part.slice.step.push_back(std::max<int64_t>(step, 1));
  part.strides.push_back(stride * dim.period);
  part.at += number * stride;
  int64_t behind = dim.inner;
  for (const int64_t length : inner_shape) {
    behind /= length;
    const int64_t at = index / behind % length;
    part.slice.begin.push_back(at);
    part.slice.end.push_back(at + 1);
    part.slice.step.push_back(1);
    part.strides.push_back(0);
  }
}

// Advances to the next combination of part numbers; false after the last.
bool Advance(Shape& numbers, const std::vector<JoinedDimension>& dims) {
  for (size_t i = dims.size(); i > 0; --i) {
    if (++numbers[i - 1] < dims[i - 1].parts()) return true;
    numbers[i - 1] = 0;
  }
  return false;
}

}  // namespace

bool JoinsDimensions(const Shape& laid_out, const Shape& seen) {
  return FirstDimensions(laid_out, seen).has_value();
}

std::vector<LaidOutPart> LaidOutParts(const Shape& laid_out, const Shape& seen, const Slice& slice,
                                      const Shape& strides) {
  if (laid_out == seen) return {{slice, strides, 0}};
  const std::optional<std::vector<size_t>> first = FirstDimensions(laid_out, seen);
  NXDKIT_CHECK(first.has_value());
  if (WholeBox(slice.extent()).Volume() == 0) return {};
  const std::vector<JoinedDimension> dims = DimensionsOf(laid_out, *first, slice);
  std::vector<LaidOutPart> parts;
  Shape numbers(seen.size(), 0);
  do {
    LaidOutPart part;
    for (size_t s = 0; s < seen.size(); ++s) {
      const size_t inner = (*first)[s] + 1;
      AddDimension(dims[s], numbers[s], strides[s],
                   std::span(laid_out).subspan(inner, (*first)[s + 1] - inner), part);
    }
    parts.push_back(std::move(part));
  } while (Advance(numbers, dims));
  return parts;
}

}  // namespace nxdkit::ops
