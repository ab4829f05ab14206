#include "formats/adapter/lora_kernel.h"

#include <cstring>

#include "lib/base/simd.h"

// Compiled without contraction: a fused multiply-add would round once less.
namespace nxdkit::adapter {
namespace {

constexpr int kLanes = 8;
constexpr int kVectors = kLoraTile / kLanes;
constexpr int kRows = 4;  // that share the loads of A
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));

template <int kCount>
NXDKIT_INLINE void AddRows(const float* a, const float* b, int64_t rank, float scale,
                           std::byte* out, int64_t stride, int first, int end) {
  Floats sums[kCount][kVectors] = {};
  for (int64_t k = 0; k < rank; ++k) {
    Floats line[kVectors];
    std::memcpy(line, a + k * kLoraTile, sizeof line);
    for (int i = 0; i < kCount; ++i)
      for (int v = 0; v < kVectors; ++v) sums[i][v] += b[i * rank + k] * line[v];
  }
  const int64_t at = first * static_cast<int64_t>(sizeof(float));
  const size_t bytes = static_cast<size_t>(end - first) * sizeof(float);
  for (int i = 0; i < kCount; ++i) {
    float values[kLoraTile] = {};
    float products[kLoraTile];
    std::memcpy(products, sums[i], sizeof products);
    std::memcpy(values + first, out + i * stride + at, bytes);
    for (int j = 0; j < kLoraTile; ++j) values[j] += scale * products[j];
    std::memcpy(out + i * stride + at, values + first, bytes);
  }
}

}  // namespace

NXDKIT_CLONES
void AddLoraTile(const float* a, const float* b, int64_t rank, int64_t rows, float scale,
                 std::byte* out, int64_t stride, int first, int end) {
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows)
    AddRows<kRows>(a, b + i * rank, rank, scale, out + i * stride, stride, first, end);
  for (; i < rows; ++i)
    AddRows<1>(a, b + i * rank, rank, scale, out + i * stride, stride, first, end);
}

}  // namespace nxdkit::adapter
