// PRIVATE to trainer. Element functions and reductions that vectorise without changing the order of
// additions: sums are kept in explicit lanes, so that every instruction set gives the same bits.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "lib/base/simd.h"

namespace nxdkit::trainer {

// e^x for all finite x, to about two units in the last place; 0 below -87.3, saturated above 88.7.
NXDKIT_INLINE float Exp(float x) {
  constexpr float kLog2e = 1.44269504f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float low = x < -87.3f ? 0.0f : 1.0f;
  x = x < -87.3f ? -87.3f : x;
  x = x > 88.7f ? 88.7f : x;
  const float n = (x * kLog2e + kRound) - kRound;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  // Scales by 2^n in two steps: n = 128 does not fit one exponent.
  const int32_t half = static_cast<int32_t>(n) >> 1;
  const int32_t rest = static_cast<int32_t>(n) - half;
  const float a = std::bit_cast<float>((half + 127) << 23);
  const float b = std::bit_cast<float>((rest + 127) << 23);
  return p * a * b * low;
}

NXDKIT_INLINE float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }

// Stores a result as it is, or rounded to bf16 like ConvertElements.
NXDKIT_INLINE void Put(float value, float* to) { *to = value; }
NXDKIT_INLINE void Put(float value, uint16_t* to) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  *to = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

// The values that are processed together. A vector wider than the machine's registers is not merely
// split: g++ 12 keeps its sums in memory, at a sixth of the speed.
struct Wide {
  static constexpr int64_t kWidth = 16;
  using Floats = float __attribute__((vector_size(64)));
  using Words = uint32_t __attribute__((vector_size(64)));
  using Halves = uint16_t __attribute__((vector_size(32)));
};
struct Narrow {
  static constexpr int64_t kWidth = 8;
  using Floats = float __attribute__((vector_size(32)));
  using Words = uint32_t __attribute__((vector_size(32)));
  using Halves = uint16_t __attribute__((vector_size(16)));
};

// Sixteen running values, folded in a fixed order.
using Lanes = Wide::Floats;
constexpr int64_t kLanes = Wide::kWidth;

// By reference: the ABI for returning a vector depends on the instruction set.
NXDKIT_INLINE void Load(const float* from, Lanes& to) { std::memcpy(&to, from, sizeof to); }

NXDKIT_INLINE float Fold(const Lanes& lanes) {
  float sum = 0;
  for (int64_t i = 0; i < kLanes; ++i) sum += lanes[i];
  return sum;
}

NXDKIT_INLINE float Dot(const float* a, const float* b, int64_t count) {
  Lanes sum = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Lanes x, y;
    Load(a + i, x);
    Load(b + i, y);
    sum += x * y;
  }
  float rest = Fold(sum);
  for (; i < count; ++i) rest += a[i] * b[i];
  return rest;
}

NXDKIT_INLINE float Sum(const float* a, int64_t count) {
  Lanes sum = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Lanes x;
    Load(a + i, x);
    sum += x;
  }
  float rest = Fold(sum);
  for (; i < count; ++i) rest += a[i];
  return rest;
}

NXDKIT_INLINE float Max(const float* a, int64_t count) {
  Lanes best = {};
  best -= __builtin_inff();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Lanes next;
    Load(a + i, next);
    best = next > best ? next : best;
  }
  float result = -__builtin_inff();
  for (int64_t k = 0; k < kLanes; ++k) result = best[k] > result ? best[k] : result;
  for (; i < count; ++i) result = a[i] > result ? a[i] : result;
  return result;
}

}  // namespace nxdkit::trainer
