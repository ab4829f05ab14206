// PRIVATE to trainer/kernels. The inner loop of our own products: up to six rows by a panel of 64
// columns, whose sums stay in registers. A panel holds b [depth, 64] in the order of the loop: all
// columns of one k together, or of a pair of k with bf16.
//
// Every element of a result is one chain of multiply-adds over k, in order, in one accumulator.
#pragma once

#include <algorithm>
#include <cstdint>

namespace nxdkit::trainer {

constexpr int64_t kPanel = 64;   // columns: four vectors
constexpr int64_t kMaxRows = 6;  // 6 x 4 accumulators, of 32 registers

// The differences between the two types of elements.
struct F32 {
  using Element = float;
  static constexpr int64_t kStep = 1;  // of k
};
struct Bf16 {
  using Element = uint16_t;
  static constexpr int64_t kStep = 2;
};

inline int64_t RoundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Rows of a: element (r, k) at data[r * row + k / kStep * step + k % kStep].
template <typename Type>
struct TileRows {
  const typename Type::Element* data = nullptr;
  int64_t row = 0;
  int64_t step = Type::kStep;  // as in a row-major matrix
};

// Whether the machine has 32 registers of 64 bytes, and may use them.
bool HasWide();

// c [rows, 64] = a [rows, depth] * panel, or += with `add`; `depth` is a multiple of kStep.
void RunTile(F32, int64_t rows, const TileRows<F32>& a, const float* panel, int64_t depth, float* c,
             int64_t c_stride, bool add);
void RunTile(Bf16, int64_t rows, const TileRows<Bf16>& a, const uint16_t* panel, int64_t depth,
             float* c, int64_t c_stride, bool add);

// A panel of `columns` rows of a row-major matrix: b is its transpose. `depth` elements of each,
// padded with zeros in both directions.
template <typename Type>
void PackTransposed(int64_t columns, int64_t depth, const typename Type::Element* from,
                    int64_t stride, typename Type::Element* panel) {
  std::fill_n(panel, kPanel * RoundUp(depth, Type::kStep), typename Type::Element());
  for (int64_t column = 0; column < columns; ++column) {
    const typename Type::Element* row = from + column * stride;
    for (int64_t k = 0; k < depth; ++k)
      panel[(k / Type::kStep * kPanel + column) * Type::kStep + k % Type::kStep] = row[k];
  }
}

// A panel of `columns` columns of a row-major matrix of `depth` rows.
template <typename Type>
void PackStraight(int64_t columns, int64_t depth, const typename Type::Element* from,
                  int64_t stride, typename Type::Element* panel) {
  std::fill_n(panel, kPanel * RoundUp(depth, Type::kStep), typename Type::Element());
  for (int64_t k = 0; k < depth; ++k) {
    typename Type::Element* to = panel + k / Type::kStep * Type::kStep * kPanel + k % Type::kStep;
    for (int64_t column = 0; column < columns; ++column)
      to[column * Type::kStep] = from[k * stride + column];
  }
}

}  // namespace nxdkit::trainer
