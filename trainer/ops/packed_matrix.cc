#include "trainer/ops/packed_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "trainer/ops/lanes.h"
#include "trainer/ops/parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define NXDKIT_HAS_BF16_KERNEL 1
#endif

namespace nxdkit::trainer {
namespace {

constexpr int64_t kPanel = 64;   // columns: four vectors
constexpr int64_t kVectors = 4;  //
constexpr int64_t kMaxRows = 6;  // 6 x 4 accumulators, of 32 registers

using Pairs = uint32_t __attribute__((vector_size(64)));

// What differs between the two types of elements: the same walk for both.
struct F32 {
  using Element = float;
  static constexpr int64_t kStep = 1;  // of k
};
struct Bf16 {
  using Element = uint16_t;
  static constexpr int64_t kStep = 2;
};

// c [rows, 64] = a [rows, k] * panel. Contracted to fused multiply-adds where the machine has them.
template <int64_t kRows>
NXDKIT_INLINE void Tile(F32, const float* a, int64_t a_stride, const float* panel, int64_t depth,
                        float* c, int64_t c_stride) {
  Lanes sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k, panel += kPanel) {
    Lanes b[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) Load(panel + v * kLanes, b[v]);
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t v = 0; v < kVectors; ++v) sums[r][v] += b[v] * a[r * a_stride + k];
  }
  for (int64_t r = 0; r < kRows; ++r) std::memcpy(c + r * c_stride, sums[r], sizeof sums[r]);
}

// Without an instruction for it: each pair is two floats, the even one first.
template <int64_t kRows>
NXDKIT_INLINE void Tile(Bf16, const uint16_t* a, int64_t a_stride, const uint16_t* panel,
                        int64_t depth, float* c, int64_t c_stride) {
  Lanes sums[kRows][kVectors] = {};
  const auto widen = [](uint16_t value) {
    return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
  };
  for (int64_t k = 0; k < depth; k += 2, panel += 2 * kPanel) {
    for (int64_t v = 0; v < kVectors; ++v) {
      Pairs pairs;
      std::memcpy(&pairs, panel + v * 2 * kLanes, sizeof pairs);
      const Pairs even_bits = pairs << 16;
      const Pairs odd_bits = pairs & 0xffff0000u;
      Lanes even, odd;
      std::memcpy(&even, &even_bits, sizeof even);
      std::memcpy(&odd, &odd_bits, sizeof odd);
      for (int64_t r = 0; r < kRows; ++r) {
        sums[r][v] += even * widen(a[r * a_stride + k]);
        sums[r][v] += odd * widen(a[r * a_stride + k + 1]);
      }
    }
  }
  for (int64_t r = 0; r < kRows; ++r) std::memcpy(c + r * c_stride, sums[r], sizeof sums[r]);
}

template <typename Type>
NXDKIT_INLINE void AnyTile(Type type, int64_t rows, const typename Type::Element* a,
                           int64_t a_stride, const typename Type::Element* panel, int64_t depth,
                           float* c, int64_t c_stride) {
  switch (rows) {
    case 1:
      return Tile<1>(type, a, a_stride, panel, depth, c, c_stride);
    case 2:
      return Tile<2>(type, a, a_stride, panel, depth, c, c_stride);
    case 3:
      return Tile<3>(type, a, a_stride, panel, depth, c, c_stride);
    case 4:
      return Tile<4>(type, a, a_stride, panel, depth, c, c_stride);
    case 5:
      return Tile<5>(type, a, a_stride, panel, depth, c, c_stride);
    default:
      return Tile<6>(type, a, a_stride, panel, depth, c, c_stride);
  }
}

NXDKIT_CLONES void RunF32(int64_t rows, const float* a, int64_t a_stride, const float* panel,
                          int64_t depth, float* c, int64_t c_stride) {
  AnyTile(F32(), rows, a, a_stride, panel, depth, c, c_stride);
}
NXDKIT_CLONES void RunBf16(int64_t rows, const uint16_t* a, int64_t a_stride, const uint16_t* panel,
                           int64_t depth, float* c, int64_t c_stride) {
  AnyTile(Bf16(), rows, a, a_stride, panel, depth, c, c_stride);
}

#ifdef NXDKIT_HAS_BF16_KERNEL
#define NXDKIT_BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

template <int64_t kRows>
NXDKIT_BF16_TARGET void DotTile(const uint16_t* a, int64_t a_stride, const uint16_t* panel,
                                int64_t depth, float* c, int64_t c_stride) {
  __m512 sums[kRows][kVectors];
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
  for (int64_t k = 0; k < depth; k += 2, panel += 2 * kPanel) {
    __m512i b[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) b[v] = _mm512_loadu_si512(panel + v * 2 * kLanes);
    for (int64_t r = 0; r < kRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, a + r * a_stride + k, sizeof pair);
      const __m512i x = _mm512_set1_epi32(pair);
      for (int64_t v = 0; v < kVectors; ++v)
        sums[r][v] = _mm512_dpbf16_ps(sums[r][v], reinterpret_cast<__m512bh>(b[v]),
                                      reinterpret_cast<__m512bh>(x));
    }
  }
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t v = 0; v < kVectors; ++v)
      _mm512_storeu_ps(c + r * c_stride + v * kLanes, sums[r][v]);
}

void RunDot(int64_t rows, const uint16_t* a, int64_t a_stride, const uint16_t* panel, int64_t depth,
            float* c, int64_t c_stride) {
  switch (rows) {
    case 1:
      return DotTile<1>(a, a_stride, panel, depth, c, c_stride);
    case 2:
      return DotTile<2>(a, a_stride, panel, depth, c, c_stride);
    case 3:
      return DotTile<3>(a, a_stride, panel, depth, c, c_stride);
    case 4:
      return DotTile<4>(a, a_stride, panel, depth, c, c_stride);
    case 5:
      return DotTile<5>(a, a_stride, panel, depth, c, c_stride);
    default:
      return DotTile<6>(a, a_stride, panel, depth, c, c_stride);
  }
}

bool HasDot() {
  static const bool has = __builtin_cpu_supports("avx512bf16") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return has;
}
#else
bool HasDot() { return false; }
void RunDot(int64_t, const uint16_t*, int64_t, const uint16_t*, int64_t, float*, int64_t) {}
#endif

void Run(F32, int64_t rows, const float* a, int64_t a_stride, const float* panel, int64_t depth,
         float* c, int64_t c_stride) {
  RunF32(rows, a, a_stride, panel, depth, c, c_stride);
}
void Run(Bf16, int64_t rows, const uint16_t* a, int64_t a_stride, const uint16_t* panel,
         int64_t depth, float* c, int64_t c_stride) {
  if (HasDot()) return RunDot(rows, a, a_stride, panel, depth, c, c_stride);
  RunBf16(rows, a, a_stride, panel, depth, c, c_stride);
}

int64_t RoundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// All rows through one panel, which stays in the cache of its core: tiles of nearly equal height.
template <typename Type>
void MultiplyPanel(int64_t m, const typename Type::Element* a, int64_t a_stride,
                   const typename Type::Element* panel, int64_t depth, int64_t columns, float* c,
                   int64_t c_stride) {
  const int64_t tiles = (m + kMaxRows - 1) / kMaxRows;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t first = m * tile / tiles;
    const int64_t rows = m * (tile + 1) / tiles - first;
    const typename Type::Element* from = a + first * a_stride;
    if (columns == kPanel) {
      Run(Type(), rows, from, a_stride, panel, depth, c + first * c_stride, c_stride);
      continue;
    }
    float whole[kMaxRows * kPanel];
    Run(Type(), rows, from, a_stride, panel, depth, whole, kPanel);
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

// Columns [first, first + 64) of b: k by k (or pair by pair), all columns of one k together.
template <typename Type>
void PackPanel(int64_t first, int64_t n, int64_t k, int64_t depth, const Matrix& weight,
               typename Type::Element* panel) {
  using Element = typename Type::Element;
  std::fill_n(panel, kPanel * depth, Element());
  const auto* data = static_cast<const Element*>(weight.data);
  for (int64_t column = 0; column < std::min(kPanel, n - first); ++column) {
    const Element* row = data + (first + column) * weight.stride;
    for (int64_t i = 0; i < k; ++i)
      panel[(i / Type::kStep * kPanel + column) * Type::kStep + i % Type::kStep] = row[i];
  }
}

template <typename Type>
void Pack(int64_t n, int64_t k, const Matrix& weight, void* panels) {
  const int64_t depth = RoundUp(k, Type::kStep);
  auto* to = static_cast<typename Type::Element*>(panels);
  ParallelFor((n + kPanel - 1) / kPanel, 1, [&](int64_t p) {
    PackPanel<Type>(p * kPanel, n, k, depth, weight, to + p * kPanel * depth);
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
    return Error(Errc::kLimit,
                 fmt::format("there is no memory for a packed matrix of {} bytes", packed.bytes_));
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
