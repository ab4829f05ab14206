#include "trainer/kernels/tile.h"

#include <dnnl.h>

#include <bit>
#include <cstring>

#include "trainer/base/lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nxdkit::trainer {
namespace {

// Sums of kRows x kVectors vectors: as many as the registers hold.
template <typename V, int64_t kRows, int64_t kVectors>
NXDKIT_INLINE void Store(const typename V::Floats (&sums)[kRows][kVectors], float* c,
                         int64_t c_stride, bool add) {
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t v = 0; v < kVectors; ++v) {
      float* to = c + r * c_stride + v * V::kWidth;
      typename V::Floats sum = sums[r][v];
      if (add) {
        typename V::Floats was;
        std::memcpy(&was, to, sizeof was);
        sum += was;
      }
      std::memcpy(to, &sum, sizeof sum);
    }
}

// Contracted to fused multiply-adds where the machine has them.
template <typename V, int64_t kRows, int64_t kVectors>
NXDKIT_INLINE void Tile(F32, const TileRows<F32>& a, const float* panel, int64_t depth, float* c,
                        int64_t c_stride, bool add) {
  typename V::Floats sums[kRows][kVectors] = {};
  const float* at = a.data;
  for (int64_t k = 0; k < depth; ++k, panel += kPanel, at += a.step) {
    typename V::Floats b[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) std::memcpy(&b[v], panel + v * V::kWidth, sizeof b[v]);
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t v = 0; v < kVectors; ++v) sums[r][v] += b[v] * at[r * a.row];
  }
  Store<V>(sums, c, c_stride, add);
}

// On machines without the instruction: each pair is two floats, the even one first.
template <typename V, int64_t kRows, int64_t kVectors>
NXDKIT_INLINE void Tile(Bf16, const TileRows<Bf16>& a, const uint16_t* panel, int64_t depth,
                        float* c, int64_t c_stride, bool add) {
  typename V::Floats sums[kRows][kVectors] = {};
  const auto widen = [](uint16_t value) {
    return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
  };
  const uint16_t* at = a.data;
  for (int64_t k = 0; k < depth; k += 2, panel += 2 * kPanel, at += a.step) {
    for (int64_t v = 0; v < kVectors; ++v) {
      typename V::Words pairs;
      std::memcpy(&pairs, panel + v * 2 * V::kWidth, sizeof pairs);
      const typename V::Words even_bits = pairs << 16;
      const typename V::Words odd_bits = pairs & 0xffff0000u;
      typename V::Floats even, odd;
      std::memcpy(&even, &even_bits, sizeof even);
      std::memcpy(&odd, &odd_bits, sizeof odd);
      for (int64_t r = 0; r < kRows; ++r) {
        sums[r][v] += even * widen(at[r * a.row]);
        sums[r][v] += odd * widen(at[r * a.row + 1]);
      }
    }
  }
  Store<V>(sums, c, c_stride, add);
}

template <typename V, int64_t kVectors, int64_t kRows = 1, typename Type>
NXDKIT_INLINE void AnyTile(Type type, int64_t rows, const TileRows<Type>& a,
                           const typename Type::Element* panel, int64_t depth, float* c,
                           int64_t c_stride, bool add) {
  if constexpr (kRows < kMaxRows)
    if (rows != kRows)
      return AnyTile<V, kVectors, kRows + 1>(type, rows, a, panel, depth, c, c_stride, add);
  Tile<V, kRows, kVectors>(type, a, panel, depth, c, c_stride, add);
}

// With 32 wide registers the whole panel at once; with 16 narrow ones two vectors at a time.
NXDKIT_CLONES void RunWide(int64_t rows, const TileRows<F32>& a, const float* panel, int64_t depth,
                           float* c, int64_t c_stride, bool add) {
  AnyTile<Wide, 4>(F32(), rows, a, panel, depth, c, c_stride, add);
}
constexpr int64_t kAtOnce = 2 * Narrow::kWidth;
NXDKIT_CLONES void RunNarrow(int64_t rows, const TileRows<F32>& a, const float* panel,
                             int64_t depth, float* c, int64_t c_stride, bool add) {
  for (int64_t i = 0; i < kPanel; i += kAtOnce)
    AnyTile<Narrow, 2>(F32(), rows, a, panel + i, depth, c + i, c_stride, add);
}
NXDKIT_CLONES void RunPairs(int64_t rows, const TileRows<Bf16>& a, const uint16_t* panel,
                            int64_t depth, float* c, int64_t c_stride, bool add) {
  for (int64_t i = 0; i < kPanel; i += kAtOnce)
    AnyTile<Narrow, 2>(Bf16(), rows, a, panel + 2 * i, depth, c + i, c_stride, add);
}

#if defined(__x86_64__)
constexpr bool kHasBf16Kernel = true;
#define NXDKIT_BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

template <int64_t kRows>
NXDKIT_BF16_TARGET void DotTile(const TileRows<Bf16>& a, const uint16_t* panel, int64_t depth,
                                float* c, int64_t c_stride, bool add) {
  constexpr int64_t kVectors = kPanel / Wide::kWidth;
  __m512 sums[kRows][kVectors];
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
  const uint16_t* at = a.data;
  for (int64_t k = 0; k < depth; k += 2, panel += 2 * kPanel, at += a.step) {
    __m512i b[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) b[v] = _mm512_loadu_si512(panel + v * 2 * Wide::kWidth);
    for (int64_t r = 0; r < kRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, at + r * a.row, sizeof pair);
      const __m512i x = _mm512_set1_epi32(pair);
      for (int64_t v = 0; v < kVectors; ++v)
        sums[r][v] = _mm512_dpbf16_ps(sums[r][v], reinterpret_cast<__m512bh>(b[v]),
                                      reinterpret_cast<__m512bh>(x));
    }
  }
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t v = 0; v < kVectors; ++v) {
      float* to = c + r * c_stride + v * Wide::kWidth;
      if (add) sums[r][v] = _mm512_add_ps(sums[r][v], _mm512_loadu_ps(to));
      _mm512_storeu_ps(to, sums[r][v]);
    }
}

void RunDot(int64_t rows, const TileRows<Bf16>& a, const uint16_t* panel, int64_t depth, float* c,
            int64_t c_stride, bool add) {
  static constexpr decltype(&DotTile<1>) kTiles[] = {DotTile<1>, DotTile<2>, DotTile<3>,
                                                     DotTile<4>, DotTile<5>, DotTile<6>};
  kTiles[rows - 1](a, panel, depth, c, c_stride, add);
}

#else
constexpr bool kHasBf16Kernel = false;
void RunDot(int64_t, const TileRows<Bf16>&, const uint16_t*, int64_t, float*, int64_t, bool) {}
#endif

// Whether oneDNN may use the instructions, so that DNNL_MAX_CPU_ISA applies to these products too.
bool May(dnnl_cpu_isa_t isa) {
  static const dnnl_cpu_isa_t may = dnnl_get_effective_cpu_isa();
  return (may & isa) == isa;
}
bool HasDot() { return kHasBf16Kernel && May(dnnl_cpu_isa_avx512_core_bf16); }

}  // namespace

bool HasWide() { return May(dnnl_cpu_isa_avx512_core); }

void RunTile(F32, int64_t rows, const TileRows<F32>& a, const float* panel, int64_t depth, float* c,
             int64_t c_stride, bool add) {
  if (HasWide()) return RunWide(rows, a, panel, depth, c, c_stride, add);
  RunNarrow(rows, a, panel, depth, c, c_stride, add);
}

void RunTile(Bf16, int64_t rows, const TileRows<Bf16>& a, const uint16_t* panel, int64_t depth,
             float* c, int64_t c_stride, bool add) {
  if (HasDot()) return RunDot(rows, a, panel, depth, c, c_stride, add);
  RunPairs(rows, a, panel, depth, c, c_stride, add);
}

}  // namespace nxdkit::trainer
