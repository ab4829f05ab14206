#include "lib/plan/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include "lib/plan/transpose.h"

namespace nxdkit {
namespace {

struct Dim {
  int64_t extent;
  int64_t source;  // strides in elements
  int64_t output;
};

// Outermost first, without dimensions of extent 1, neighbours merged where both sides allow it.
std::vector<Dim> Normalise(const StridedCopy& copy) {
  std::vector<Dim> dims;
  for (size_t d = 0; d < copy.extent.size(); ++d)
    if (copy.extent[d] != 1)
      dims.push_back({copy.extent[d], copy.source_strides[d], copy.output_strides[d]});
  std::ranges::stable_sort(dims, std::greater(), &Dim::output);
  std::vector<Dim> merged;
  for (const Dim& dim : dims) {
    if (!merged.empty() && merged.back().output == dim.output * dim.extent &&
        merged.back().source == dim.source * dim.extent) {
      merged.back() = {merged.back().extent * dim.extent, dim.source, dim.output};
      continue;
    }
    merged.push_back(dim);
  }
  return merged;
}

// Calls run(source offset, output offset), in elements, for every index of `dims`.
template <typename Run>
void ForEach(const std::vector<Dim>& dims, const Run& run) {
  std::vector<int64_t> index(dims.size(), 0);
  int64_t source = 0;
  int64_t output = 0;
  while (true) {
    run(source, output);
    size_t d = dims.size();
    while (d > 0) {
      --d;
      source += dims[d].source;
      output += dims[d].output;
      if (++index[d] < dims[d].extent) break;
      source -= dims[d].source * dims[d].extent;
      output -= dims[d].output * dims[d].extent;
      index[d] = 0;
      if (d == 0) return;
    }
    if (dims.empty()) return;
  }
}

// Two dimensions, in blocks that keep both sides in the first-level cache.
template <size_t kBytes>
void CopyPlane(const Dim& rows, const Dim& columns, const std::byte* source, std::byte* output) {
  constexpr int64_t kBlock = 32;
  using E = Element<kBytes>;
  for (int64_t r0 = 0; r0 < rows.extent; r0 += kBlock) {
    for (int64_t c0 = 0; c0 < columns.extent; c0 += kBlock) {
      const int64_t r1 = std::min(r0 + kBlock, rows.extent);
      const int64_t c1 = std::min(c0 + kBlock, columns.extent);
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t c = c0; c < c1; ++c) {
          E element;
          std::memcpy(&element, source + (r * rows.source + c * columns.source) * int64_t{kBytes},
                      kBytes);
          std::memcpy(output + (r * rows.output + c * columns.output) * int64_t{kBytes}, &element,
                      kBytes);
        }
    }
  }
}

void CopyPlaneOf(int64_t bytes, const Dim& rows, const Dim& columns, const std::byte* source,
                 std::byte* output) {
  constexpr void (*kCopies[])(const Dim&, const Dim&, const std::byte*, std::byte*) = {
      CopyPlane<1>, CopyPlane<2>, CopyPlane<4>, CopyPlane<8>, CopyPlane<16>};
  kCopies[SizeIndex(bytes)](rows, columns, source, output);
}

// Copies elements of the same dtype and byte order.
void CopyBytes(std::vector<Dim> dims, int64_t bytes, const std::byte* source, std::byte* output) {
  if (dims.empty()) {
    std::memcpy(output, source, bytes);
    return;
  }
  const Dim inner = dims.back();
  dims.pop_back();
  if (inner.source == 1 && inner.output == 1) {
    ForEach(dims, [&](int64_t from, int64_t to) {
      std::memcpy(output + to * bytes, source + from * bytes, inner.extent * bytes);
    });
    return;
  }
  Dim plane{1, 0, 0};
  const auto contiguous = std::ranges::find(dims, 1, &Dim::source);
  if (contiguous != dims.end()) {
    plane = *contiguous;
    dims.erase(contiguous);
  } else if (!dims.empty()) {
    plane = dims.back();
    dims.pop_back();
  }
  if (plane.source == 1 && inner.output == 1)
    return ForEach(dims, [&](int64_t from, int64_t to) {
      CopyTransposed(bytes, plane.extent, inner.extent, inner.source, plane.output,
                     source + from * bytes, output + to * bytes);
    });
  ForEach(dims, [&](int64_t from, int64_t to) {
    CopyPlaneOf(bytes, plane, inner, source + from * bytes, output + to * bytes);
  });
}

// Converts one run of elements that need not be contiguous on either side.
void ConvertRun(const StridedCopy& copy, const Dim& run, const std::byte* source,
                std::byte* output) {
  constexpr int64_t kBatch = 512;
  const int64_t from_bytes = ElementBytes(copy.from);
  const int64_t to_bytes = ElementBytes(copy.to);
  std::array<std::byte, kBatch * 16> raw;
  std::array<std::byte, kBatch * 16> converted;
  for (int64_t i = 0; i < run.extent; i += kBatch) {
    const int64_t n = std::min(kBatch, run.extent - i);
    const Dim batch{n, run.source, 1};
    CopyBytes({batch}, from_bytes, source + i * run.source * from_bytes, raw.data());
    if (copy.swap_source)
      SwapBytes(std::span(raw).first(n * from_bytes), Info(copy.from).swap_bytes);
    if (copy.from == copy.to)
      converted = raw;
    else
      ConvertElements(copy.from, raw.data(), copy.to, converted.data(), n);
    CopyBytes({Dim{n, 1, run.output}}, to_bytes, converted.data(),
              output + i * run.output * to_bytes);
  }
}

}  // namespace

bool IsPlainRun(const StridedCopy& copy) {
  if (copy.from != copy.to || copy.swap_source) return false;
  const std::vector<Dim> dims = Normalise(copy);
  return dims.empty() || (dims.size() == 1 && dims[0].source == 1 && dims[0].output == 1);
}

void RunStridedCopy(const StridedCopy& copy, const std::byte* source, std::byte* output) {
  if (std::ranges::count(copy.extent, 0) > 0) return;
  std::vector<Dim> dims = Normalise(copy);
  if (copy.from == copy.to && !copy.swap_source)
    return CopyBytes(std::move(dims), ElementBytes(copy.from), source, output);
  Dim run{1, 1, 1};
  if (!dims.empty()) {
    run = dims.back();
    dims.pop_back();
  }
  if (!copy.swap_source && run.source == 1 && run.output == 1) {
    ForEach(dims, [&](int64_t from, int64_t to) {
      ConvertElements(copy.from, source + from * ElementBytes(copy.from), copy.to,
                      output + to * ElementBytes(copy.to), run.extent);
    });
    return;
  }
  ForEach(dims, [&](int64_t from, int64_t to) {
    ConvertRun(copy, run, source + from * ElementBytes(copy.from),
               output + to * ElementBytes(copy.to));
  });
}

}  // namespace nxdkit
