#include "lib/tensor/tally.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "lib/base/error.h"
#include "lib/base/simd.h"

namespace nxdkit {
namespace {

// Lanes are spelled out as compiler vectors: the order of additions is then part of the source, the
// same for every instruction set, and -O2 suffices.
constexpr int kLanes = 8;
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));

template <typename Float>
struct Lanes;
template <>
struct Lanes<float> {
  using Values = float __attribute__((vector_size(kLanes * sizeof(float))));
  using Integers = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));
  static constexpr int32_t kMagnitude = 0x7fffffff;
  static constexpr int32_t kInfinity = 0x7f800000;
};
template <>
struct Lanes<double> {
  using Values = double __attribute__((vector_size(kLanes * sizeof(double))));
  using Integers = int64_t __attribute__((vector_size(kLanes * sizeof(int64_t))));
  static constexpr int64_t kMagnitude = 0x7fffffffffffffff;
  static constexpr int64_t kInfinity = 0x7ff0000000000000;
};

// Turns 2 * kLanes elements into two vectors, in any order but always the same, and one element
// into a number.
template <typename FloatType>
struct LoadPlain {
  using Float = FloatType;
  using Values = typename Lanes<Float>::Values;
  static constexpr int64_t kBytes = sizeof(Float);
  static NXDKIT_INLINE void Pair(const std::byte* from, Values& a, Values& b) {
    std::memcpy(&a, from, sizeof a);
    std::memcpy(&b, from + sizeof a, sizeof b);
  }
  static NXDKIT_INLINE Float One(const std::byte* from) {
    Float value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
};

struct LoadBf16 {
  using Float = float;
  using Values = Lanes<float>::Values;
  using Words = uint32_t __attribute__((vector_size(kLanes * sizeof(uint32_t))));
  static constexpr int64_t kBytes = 2;
  // Elements 0, 2, 4, ... and 1, 3, 5, ...: a shift and a mask are cheaper than unpacking.
  static NXDKIT_INLINE void Pair(const std::byte* from, Values& a, Values& b) {
    Words words;
    std::memcpy(&words, from, sizeof words);
    const Words even = words << 16;
    const Words odd = words & 0xffff0000;
    std::memcpy(&a, &even, sizeof a);
    std::memcpy(&b, &odd, sizeof b);
  }
  static NXDKIT_INLINE float One(const std::byte* from) {
    uint16_t half;
    std::memcpy(&half, from, sizeof half);
    return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
  }
};

// The slow and complete way, element by element.
template <typename Float>
NXDKIT_INLINE void AddOne(Float value, Tally& tally) {
  using L = Lanes<Float>;
  const auto magnitude = std::bit_cast<decltype(L::kMagnitude)>(value) & L::kMagnitude;
  if (magnitude >= L::kInfinity) {
    ++(magnitude == L::kInfinity ? tally.inf : tally.nan);
    return;
  }
  const auto wide = static_cast<double>(value);
  tally.zeros += magnitude == 0;
  tally.min = std::min(tally.min, wide);
  tally.max = std::max(tally.max, wide);
  tally.sum += wide;
}

template <typename Load>
NXDKIT_INLINE void AddSlowly(const std::byte* from, int64_t count, Tally& tally) {
  for (int64_t i = 0; i < count; ++i) AddOne(Load::One(from + i * Load::kBytes), tally);
}

// The statistics of a block in the lanes of one vector.
template <typename Float>
struct LaneTally {
  using L = Lanes<Float>;
  typename L::Values least = typename L::Values{} + std::numeric_limits<Float>::infinity();
  typename L::Values most = typename L::Values{} - std::numeric_limits<Float>::infinity();
  typename L::Integers zeros{};
  typename L::Integers magnitudes{};  // the largest, as bits: tells whether all are finite
  Doubles sums{};

  NXDKIT_INLINE void Add(const typename L::Values& values) {
    typename L::Integers bits;
    std::memcpy(&bits, &values, sizeof bits);
    bits &= L::kMagnitude;
    magnitudes = bits > magnitudes ? bits : magnitudes;
    zeros -= bits == 0;
    least = values < least ? values : least;
    most = values > most ? values : most;
    sums += __builtin_convertvector(values, Doubles);
  }

  NXDKIT_INLINE bool AllFinite() const {
    for (int lane = 0; lane < kLanes; ++lane)
      if (magnitudes[lane] >= L::kInfinity) return false;
    return true;
  }

  NXDKIT_INLINE void AddTo(Tally& tally) const {
    for (int lane = 0; lane < kLanes; ++lane) {
      tally.zeros += static_cast<uint64_t>(zeros[lane]);
      tally.min = std::min(tally.min, static_cast<double>(least[lane]));
      tally.max = std::max(tally.max, static_cast<double>(most[lane]));
      tally.sum += sums[lane];
    }
  }
};

// The elements of a block: few enough to stay in the first cache for the second pass over a block
// with a NaN or an infinity.
constexpr int64_t kBlock = 4096;
// Two vectors at a time, so that one addition need not wait for the other.
constexpr int64_t kStep = 2 * kLanes;

template <typename Load>
NXDKIT_INLINE void AddBlock(const std::byte* from, int64_t count, Tally& tally) {
  using Float = typename Load::Float;
  LaneTally<Float> first;
  LaneTally<Float> second;
  for (int64_t i = 0; i < count; i += kStep) {
    typename Lanes<Float>::Values a;
    typename Lanes<Float>::Values b;
    Load::Pair(from + i * Load::kBytes, a, b);
    first.Add(a);
    second.Add(b);
  }
  if (!first.AllFinite() || !second.AllFinite()) return AddSlowly<Load>(from, count, tally);
  first.AddTo(tally);
  second.AddTo(tally);
}

template <typename Load>
NXDKIT_INLINE void AddFloats(const std::byte* from, int64_t count, Tally& tally) {
  const int64_t in_steps = count - count % kStep;
  for (int64_t i = 0; i < in_steps; i += kBlock)
    AddBlock<Load>(from + i * Load::kBytes, std::min(kBlock, in_steps - i), tally);
  AddSlowly<Load>(from + in_steps * Load::kBytes, count - in_steps, tally);
}

NXDKIT_CLONES void AddF32(const std::byte* from, int64_t count, Tally& tally) {
  AddFloats<LoadPlain<float>>(from, count, tally);
}
NXDKIT_CLONES void AddF64(const std::byte* from, int64_t count, Tally& tally) {
  AddFloats<LoadPlain<double>>(from, count, tally);
}
NXDKIT_CLONES void AddBf16(const std::byte* from, int64_t count, Tally& tally) {
  AddFloats<LoadBf16>(from, count, tally);
}

void AddF16(const std::byte* from, int64_t count, Tally& tally) {
  alignas(64) std::array<std::byte, kBlock * sizeof(float)> wide;
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t size = std::min(kBlock, count - i);
    ConvertElements(Dtype::kF16, from + 2 * i, Dtype::kF32, wide.data(), size);
    AddF32(wide.data(), size, tally);
  }
}

template <typename Integer>
void AddIntegers(const std::byte* from, int64_t count, Tally& tally) {
  alignas(64) std::array<double, kBlock> wide;
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t size = std::min(kBlock, count - i);
    for (int64_t k = 0; k < size; ++k) {
      Integer value;
      std::memcpy(&value, from + (i + k) * static_cast<int64_t>(sizeof value), sizeof value);
      wide[static_cast<size_t>(k)] = static_cast<double>(value);
    }
    AddF64(reinterpret_cast<const std::byte*>(wide.data()), size, tally);
  }
}

struct AdderRow {
  Dtype dtype;
  void (*add)(const std::byte* from, int64_t count, Tally& tally);
};
constexpr AdderRow kAdders[] = {
    {Dtype::kF32, AddF32},
    {Dtype::kBF16, AddBf16},
    {Dtype::kF16, AddF16},
    {Dtype::kF64, AddF64},
    {Dtype::kI16, AddIntegers<int16_t>},
    {Dtype::kU16, AddIntegers<uint16_t>},
    {Dtype::kI32, AddIntegers<int32_t>},
    {Dtype::kU32, AddIntegers<uint32_t>},
    {Dtype::kI64, AddIntegers<int64_t>},
    {Dtype::kU64, AddIntegers<uint64_t>},
};

// Bytes have 256 values: count each, and interpret them afterwards.
void AddBytes(Dtype dtype, const std::byte* from, int64_t count, Tally& tally) {
  // Four tables: with one, equal neighbours would wait for each other's increment.
  std::array<std::array<uint64_t, 256>, 4> seen{};
  for (int64_t i = 0; i < count; ++i) ++seen[i & 3][static_cast<uint8_t>(from[i])];
  for (size_t value = 0; value < 256; ++value) {
    const uint64_t times = seen[0][value] + seen[1][value] + seen[2][value] + seen[3][value];
    if (times == 0) continue;
    const auto bits = static_cast<std::byte>(value);
    Tally one;
    AddOne(ElementAsDouble(dtype, &bits), one);
    tally.nan += one.nan * times;
    tally.inf += one.inf * times;
    tally.zeros += one.zeros * times;
    tally.min = std::min(tally.min, one.min);
    tally.max = std::max(tally.max, one.max);
    tally.sum += one.sum * static_cast<double>(times);
  }
}

}  // namespace

void Tally::Merge(const Tally& next) {
  elements += next.elements;
  nan += next.nan;
  inf += next.inf;
  zeros += next.zeros;
  min = std::min(min, next.min);
  max = std::max(max, next.max);
  sum += next.sum;
}

bool HasTally(Dtype dtype) {
  const bool complex = dtype == Dtype::kC32 || dtype == Dtype::kC64 || dtype == Dtype::kC128;
  return !complex && ElementBytes(dtype) > 0;
}

Tally TallyElements(Dtype dtype, const std::byte* elements, int64_t count) {
  Tally tally;
  tally.elements = static_cast<uint64_t>(count);
  const auto* const row = std::ranges::find(kAdders, dtype, &AdderRow::dtype);
  if (row != std::end(kAdders)) {
    row->add(elements, count, tally);
  } else {
    NXDKIT_CHECK(ElementBytes(dtype) == 1);
    AddBytes(dtype, elements, count, tally);
  }
  return tally;
}

}  // namespace nxdkit
