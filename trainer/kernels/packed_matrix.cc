#include "trainer/kernels/packed_matrix.h"

#include <algorithm>

#include "lib/base/errors.h"
#include "trainer/base/parallel.h"
#include "trainer/kernels/tile.h"

namespace nxdkit::trainer {
namespace {

// All rows times one panel, which stays in the cache of its core: tiles of nearly equal height.
template <typename Type>
void MultiplyPanel(int64_t m, const typename Type::Element* a, int64_t a_stride,
                   const typename Type::Element* panel, int64_t depth, int64_t columns, float* c,
                   int64_t c_stride) {
  const int64_t tiles = (m + kMaxRows - 1) / kMaxRows;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t first = m * tile / tiles;
    const int64_t rows = m * (tile + 1) / tiles - first;
    const TileRows<Type> from{a + first * a_stride, a_stride};
    if (columns == kPanel) {
      RunTile(Type(), rows, from, panel, depth, c + first * c_stride, c_stride, false);
      continue;
    }
    float whole[kMaxRows * kPanel];
    RunTile(Type(), rows, from, panel, depth, whole, kPanel, false);
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(whole + r * kPanel, columns, c + (first + r) * c_stride);
  }
}

template <typename Type>
void MultiplyAll(int64_t m, int64_t n, int64_t depth, const typename Type::Element* a,
                 int64_t a_stride, const void* panels, float* c, int64_t c_stride) {
  const auto* first = static_cast<const typename Type::Element*>(panels);
  ParallelFor((n + kPanel - 1) / kPanel, 1, [&](int64_t p) {
    MultiplyPanel<Type>(m, a, a_stride, first + p * kPanel * depth, depth,
                        std::min(kPanel, n - p * kPanel), c + p * kPanel, c_stride);
  });
}

template <typename Type>
void Pack(int64_t n, int64_t k, const Matrix& weight, void* panels) {
  const int64_t depth = RoundUp(k, Type::kStep);
  const auto* from = static_cast<const typename Type::Element*>(weight.data);
  auto* to = static_cast<typename Type::Element*>(panels);
  ParallelFor((n + kPanel - 1) / kPanel, 1, [&](int64_t p) {
    PackTransposed<Type>(std::min(kPanel, n - p * kPanel), k, from + p * kPanel * weight.stride,
                         weight.stride, to + p * kPanel * depth);
  });
}

}  // namespace

Result<PackedMatrix> PackedMatrix::Make(int64_t n, int64_t k, const Matrix& weight) {
  NXDKIT_CHECK(!weight.transposed);
  const bool wide = weight.dtype == Dtype::kF32;
  PackedMatrix packed;
  packed.n_ = n;
  packed.k_ = k;
  packed.dtype_ = weight.dtype;
  packed.bytes_ = RoundUp(n, kPanel) * RoundUp(k, 2) * ElementBytes(weight.dtype);
  packed.panels_.reset(std::aligned_alloc(64, static_cast<size_t>(packed.bytes_)));
  if (!packed.panels_)
    return OverLimit("not enough memory for a packed matrix of {} bytes", packed.bytes_);
  if (wide)
    Pack<F32>(n, k, weight, packed.panels_.get());
  else
    Pack<Bf16>(n, k, weight, packed.panels_.get());
  return packed;
}

void PackedMatrix::Multiply(int64_t m, const float* a, int64_t a_stride, float* c, int64_t c_stride,
                            std::vector<uint16_t>& narrow) const {
  if (m == 0 || n_ == 0) return;
  if (dtype_ == Dtype::kF32)
    return MultiplyAll<F32>(m, n_, k_, a, a_stride, panels_.get(), c, c_stride);
  const int64_t depth = RoundUp(k_, 2);
  if (narrow.size() < static_cast<size_t>(m * depth)) narrow.resize(static_cast<size_t>(m * depth));
  ParallelFor(m, 8, [&, to = narrow.data()](int64_t row) {
    ConvertElements(Dtype::kF32, reinterpret_cast<const std::byte*>(a + row * a_stride),
                    Dtype::kBF16, reinterpret_cast<std::byte*>(to + row * depth), k_);
    if (depth != k_) to[row * depth + k_] = 0;
  });
  MultiplyAll<Bf16>(m, n_, depth, narrow.data(), depth, panels_.get(), c, c_stride);
}

}  // namespace nxdkit::trainer
