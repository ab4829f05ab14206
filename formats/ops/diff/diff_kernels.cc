#include "formats/ops/diff/diff_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "lib/base/error.h"
#include "lib/base/simd.h"

namespace nxdkit::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// The elements of a block: its arrays stay in the first-level cache, and counts of it fit 16 bits.
constexpr int64_t kBlock = 1024;
// Sums are kept in lanes, as compiler vectors: their order is part of the source.
constexpr int64_t kLanes = 8;
// The vectors that are added before widening: two or three roundings of F32.
constexpr int64_t kGroup = 4;
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
template <typename Float>
struct LanesOf {
  using Type __attribute__((vector_size(kLanes * sizeof(Float)))) = Float;
};

template <typename Float>
using BitsOf = std::conditional_t<sizeof(Float) == 4, uint32_t, uint64_t>;

// Limits as plain numbers, for loops.
struct Limits {
  explicit Limits(const DiffLimits& limits)
      : any(limits.max_ulp || limits.atol || limits.rtol),
        max_ulp(limits.max_ulp.value_or(UINT64_MAX)),
        atol(limits.atol.value_or(limits.rtol ? 0 : kInfinity)),
        rtol(limits.rtol.value_or(0)) {}
  bool any;
  uint64_t max_ulp;
  double atol;
  double rtol;
};

size_t Bucket(uint64_t ulps) {
  return ulps == 0 ? 0 : static_cast<size_t>(std::bit_width(ulps - 1)) + 1;
}

// One pair that differs. `scale` is max(|a|, |b|).
void AddChanged(double error, double scale, bool nan, uint64_t ulps, const Limits& limits,
                DiffTally& tally) {
  ++tally.changed;
  const bool within =
      error < kInfinity && ulps <= limits.max_ulp && error <= limits.atol + limits.rtol * scale;
  if (!(limits.any && within)) ++tally.beyond;
  if (nan) {
    ++tally.nan;
    return;
  }
  if (!(error < kInfinity)) {
    ++tally.infinite;
    return;
  }
  ++tally.ulps[Bucket(ulps)];
  const double relative = scale > 0 ? error / scale : 0;
  tally.max_abs = std::max(tally.max_abs, error);
  tally.max_rel = std::max(tally.max_rel, relative);
  tally.sum_abs += error;
  tally.sum_rel += relative;
}

void AddPair(double a, double b, uint64_t ulps, const Limits& limits, DiffTally& tally) {
  AddChanged(std::fabs(a - b), std::max(std::fabs(a), std::fabs(b)), std::isnan(a) || std::isnan(b),
             ulps, limits, tally);
}

// |a - b| for ranking: NaNs and infinities are the worst.
double ErrorOf(double a, double b, bool same_bits) {
  if (same_bits) return -1;
  const double error = std::fabs(a - b);
  return std::isnan(error) ? kInfinity : error;
}

// --- floating types of 16 bits and more

// Sign and magnitude as a distance: the number of values in between, both zeros being one.
template <typename Unsigned>
NXDKIT_INLINE Unsigned UlpsBetween(Unsigned a, Unsigned b) {
  constexpr Unsigned kSign = static_cast<Unsigned>(Unsigned{1} << (sizeof(Unsigned) * 8 - 1));
  constexpr Unsigned kMagnitude = static_cast<Unsigned>(kSign - 1);
  const Unsigned x = static_cast<Unsigned>(a & kMagnitude);
  const Unsigned y = static_cast<Unsigned>(b & kMagnitude);
  const Unsigned sum = static_cast<Unsigned>(x + y);
  const Unsigned difference = static_cast<Unsigned>(x > y ? x - y : y - x);
  return ((a ^ b) & kSign) != 0 ? sum : difference;
}

// A block of pairs in the wider type, and their bits in the narrower one.
template <typename Float, typename Unsigned>
struct Block {
  alignas(64) Float a[kBlock];
  alignas(64) Float b[kBlock];
  alignas(64) Unsigned narrow_a[kBlock];
  alignas(64) Unsigned narrow_b[kBlock];
  alignas(64) Unsigned ulps[kBlock];
  alignas(64) Float error[kBlock];
  alignas(64) Float scale[kBlock];
  // The narrow elements: those above, or in the input.
  const std::byte* from_a = nullptr;
  const std::byte* from_b = nullptr;
  bool same_type = false;

  static Unsigned Narrow(const std::byte* from, int64_t i) {
    Unsigned bits;
    std::memcpy(&bits, from + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    return bits;
  }
  // Widening makes NaNs quiet, so for the same type the input's bits decide.
  bool Same(int64_t i) const {
    return std::bit_cast<BitsOf<Float>>(a[i]) == std::bit_cast<BitsOf<Float>>(b[i]) &&
           (!same_type || Narrow(from_a, i) == Narrow(from_b, i));
  }
};

// The source of wide values in the loop over a block: the arrays, or the narrow bits.
enum class Widen { kFromArrays, kShift, kSame };

template <Widen kWiden, typename Float, typename Unsigned>
NXDKIT_INLINE Float WideValue([[maybe_unused]] Unsigned bits, [[maybe_unused]] Float converted) {
  if constexpr (kWiden == Widen::kShift)
    return std::bit_cast<Float>(static_cast<uint32_t>(bits) << 16);  // BF16
  else if constexpr (kWiden == Widen::kSame)
    return std::bit_cast<Float>(bits);
  else
    return converted;
}

// The results of the vector loops.
struct BlockSums {
  uint64_t changed = 0;
  bool finite = true;
  double sum_abs = 0;
  double sum_rel = 0;
  double max_abs = 0;
  double max_rel = 0;
};

// Elements past the end of a short block are pairs of zeros.
template <Widen kWiden, typename Float, typename Unsigned>
NXDKIT_INLINE void FindErrors(Block<Float, Unsigned>& block, BlockSums& sums) {
  using Bits = BitsOf<Float>;
  Bits changed = 0;
  const std::byte* const from_a = block.from_a;
  const std::byte* const from_b = block.from_b;
  for (int64_t i = 0; i < kBlock; ++i) {
    const Unsigned narrow_a = block.Narrow(from_a, i);
    const Unsigned narrow_b = block.Narrow(from_b, i);
    const Float a = WideValue<kWiden>(narrow_a, block.a[i]);
    const Float b = WideValue<kWiden>(narrow_b, block.b[i]);
    changed += std::bit_cast<Bits>(a) != std::bit_cast<Bits>(b) ? 1 : 0;
    block.error[i] = std::fabs(a - b);
    const Float size_a = std::fabs(a);
    const Float size_b = std::fabs(b);
    block.scale[i] = size_a > size_b ? size_a : size_b;
    block.ulps[i] = UlpsBetween(narrow_a, narrow_b);
  }
  sums.changed = changed;
}

template <typename Float, typename Unsigned>
NXDKIT_INLINE void SumErrors(const Block<Float, Unsigned>& block, BlockSums& sums) {
  using Values = typename LanesOf<Float>::Type;
  Doubles sum_abs{};
  Doubles sum_rel{};
  Values max_abs{};
  Values max_rel{};
  const Values ones = Values{} + 1;
  for (int64_t i = 0; i < kBlock; i += kGroup * kLanes) {
    Values group_abs{};
    Values group_rel{};
    for (int64_t k = 0; k < kGroup; ++k) {
      Values error;
      Values scale;
      std::memcpy(&error, block.error + i + k * kLanes, sizeof error);
      std::memcpy(&scale, block.scale + i + k * kLanes, sizeof scale);
      const Values relative = error / (scale > 0 ? scale : ones);
      max_abs = error > max_abs ? error : max_abs;
      max_rel = relative > max_rel ? relative : max_rel;
      group_abs += error;
      group_rel += relative;
    }
    // A NaN or an infinity stays in the sums, which is tested below.
    sum_abs += __builtin_convertvector(group_abs, Doubles);
    sum_rel += __builtin_convertvector(group_rel, Doubles);
  }
  for (int64_t l = 0; l < kLanes; ++l) {
    sums.sum_abs += sum_abs[l];
    sums.sum_rel += sum_rel[l];
    sums.max_abs = std::max(sums.max_abs, static_cast<double>(max_abs[l]));
    sums.max_rel = std::max(sums.max_rel, static_cast<double>(max_rel[l]));
  }
  sums.finite = sums.sum_abs < kInfinity;  // not for a NaN either
}

// The ends of the histogram's buckets: 0, 1, 2, 4, ...; past the type, its largest value.
template <typename Unsigned>
constexpr Unsigned BucketEnd(size_t bucket) {
  if (bucket == 0) return 0;
  constexpr size_t kBits = sizeof(Unsigned) * 8;
  if (bucket > kBits) return std::numeric_limits<Unsigned>::max();
  return static_cast<Unsigned>(Unsigned{1} << (bucket - 1));
}

// Counts by powers of two, four at a time, until no value is larger.
template <typename Unsigned>
NXDKIT_INLINE void AddUlps(const Unsigned* ulps, uint64_t changed, DiffTally& tally) {
  uint64_t above = changed;
  for (size_t bucket = 0; above > 0;) {
    const Unsigned ends[4] = {BucketEnd<Unsigned>(bucket), BucketEnd<Unsigned>(bucket + 1),
                              BucketEnd<Unsigned>(bucket + 2), BucketEnd<Unsigned>(bucket + 3)};
    Unsigned counts[4] = {};
    for (int64_t i = 0; i < kBlock; ++i) {
      const Unsigned value = ulps[i];
      counts[0] = static_cast<Unsigned>(counts[0] + (value > ends[0]));
      counts[1] = static_cast<Unsigned>(counts[1] + (value > ends[1]));
      counts[2] = static_cast<Unsigned>(counts[2] + (value > ends[2]));
      counts[3] = static_cast<Unsigned>(counts[3] + (value > ends[3]));
    }
    for (size_t k = 0; k < 4 && above > 0; ++k, ++bucket) {
      tally.ulps[bucket] += above - counts[k];
      above = counts[k];
    }
  }
}

template <typename Float, typename Unsigned>
NXDKIT_INLINE uint64_t CountBeyond(const Block<Float, Unsigned>& block, uint64_t changed,
                                   const Limits& limits) {
  if (!limits.any) return changed;
  const double atol = limits.atol;
  const double rtol = limits.rtol;
  uint64_t beyond = 0;
  for (int64_t i = 0; i < kBlock; ++i) {
    const bool values =
        static_cast<double>(block.error[i]) <= atol + rtol * static_cast<double>(block.scale[i]);
    beyond += values & (uint64_t{block.ulps[i]} <= limits.max_ulp) ? 0 : 1;
  }
  return beyond;
}

template <typename Float, typename Unsigned>
void AddSlowly(const Block<Float, Unsigned>& block, int64_t count, const Limits& limits,
               DiffTally& tally) {
  for (int64_t i = 0; i < count; ++i)
    if (!block.Same(i))
      AddPair(static_cast<double>(block.a[i]), static_cast<double>(block.b[i]), block.ulps[i],
              limits, tally);
}

// The vector loops; false if there is an infinity or a NaN, and nothing was added.
template <Widen kWiden, typename Float, typename Unsigned>
NXDKIT_INLINE bool AddFinite(Block<Float, Unsigned>& block, const Limits& limits,
                             DiffTally& tally) {
  BlockSums sums;
  FindErrors<kWiden>(block, sums);
  SumErrors(block, sums);
  if (!sums.finite) return false;
  tally.changed += sums.changed;
  tally.beyond += CountBeyond(block, sums.changed, limits);
  AddUlps<Unsigned>(block.ulps, sums.changed, tally);
  tally.max_abs = std::max(tally.max_abs, sums.max_abs);
  tally.max_rel = std::max(tally.max_rel, sums.max_rel);
  tally.sum_abs += sums.sum_abs;
  tally.sum_rel += sums.sum_rel;
  return true;
}

template <typename Float, typename Unsigned>
using BlockFunction = bool (*)(Block<Float, Unsigned>& block, const Limits& limits,
                               DiffTally& tally);

#define NXDKIT_BLOCK_FUNCTION(NAME, WIDEN, FLOAT, UNSIGNED)                                        \
  NXDKIT_CLONES bool NAME(Block<FLOAT, UNSIGNED>& block, const Limits& limits, DiffTally& tally) { \
    return AddFinite<WIDEN>(block, limits, tally);                                                 \
  }
NXDKIT_BLOCK_FUNCTION(AddBf16, Widen::kShift, float, uint16_t)
NXDKIT_BLOCK_FUNCTION(AddTo16, Widen::kFromArrays, float, uint16_t)
NXDKIT_BLOCK_FUNCTION(AddF32, Widen::kSame, float, uint32_t)
NXDKIT_BLOCK_FUNCTION(AddF64To16, Widen::kFromArrays, double, uint16_t)
NXDKIT_BLOCK_FUNCTION(AddF64To32, Widen::kFromArrays, double, uint32_t)
NXDKIT_BLOCK_FUNCTION(AddF64, Widen::kSame, double, uint64_t)
#undef NXDKIT_BLOCK_FUNCTION

// Keeps the first element with the largest error, from the block that has it.
template <typename Float, typename Unsigned>
void NoteWorst(const Block<Float, Unsigned>& block, int64_t first, int64_t count,
               DiffTally& tally) {
  for (int64_t i = 0; i < count; ++i) {
    const double error =
        ErrorOf(static_cast<double>(block.a[i]), static_cast<double>(block.b[i]), block.Same(i));
    if (error < 0 || (tally.worst >= 0 && error <= tally.worst_error)) continue;
    tally.worst_error = error;
    tally.worst = first + i;
  }
}

// The type with fewer mantissa bits is the narrower one; if equal, either.
int MantissaBits(Dtype dtype) {
  if (dtype == Dtype::kBF16) return 7;
  return dtype == Dtype::kF16 ? 10 : dtype == Dtype::kF32 ? 23 : 52;
}

struct Side {
  Dtype dtype;
  const std::byte* bytes;
};

template <typename Float>
constexpr Dtype kDtypeOf = sizeof(Float) == 4 ? Dtype::kF32 : Dtype::kF64;

template <typename Float, typename Unsigned>
void FillArrays(Side a, Side b, int64_t size, Block<Float, Unsigned>& block) {
  ConvertElements(a.dtype, a.bytes, kDtypeOf<Float>, reinterpret_cast<std::byte*>(block.a), size);
  ConvertElements(b.dtype, b.bytes, kDtypeOf<Float>, reinterpret_cast<std::byte*>(block.b), size);
}

// `in_place`: the function reads only the narrow elements, which are both sides' own.
template <typename Float, typename Unsigned>
void DiffFloats(Side a, Side b, int64_t count, const Limits& limits, DiffTally& tally,
                bool in_place, BlockFunction<Float, Unsigned> add) {
  const Dtype narrow = MantissaBits(a.dtype) < MantissaBits(b.dtype) ? a.dtype : b.dtype;
  Block<Float, Unsigned> block{};
  block.same_type = a.dtype == b.dtype;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t size = std::min(kBlock, count - first);
    const Side x{a.dtype, a.bytes + first * ElementBytes(a.dtype)};
    const Side y{b.dtype, b.bytes + first * ElementBytes(b.dtype)};
    const auto bytes = static_cast<size_t>(size * ElementBytes(a.dtype));
    if (block.same_type && std::memcmp(x.bytes, y.bytes, bytes) == 0) continue;
    if (size < kBlock) {
      block = {};
      block.same_type = a.dtype == b.dtype;
    }
    if (in_place && size == kBlock) {
      block.from_a = x.bytes;
      block.from_b = y.bytes;
    } else {
      auto* const to_a = reinterpret_cast<std::byte*>(block.narrow_a);
      auto* const to_b = reinterpret_cast<std::byte*>(block.narrow_b);
      ConvertElements(x.dtype, x.bytes, narrow, to_a, size);
      ConvertElements(y.dtype, y.bytes, narrow, to_b, size);
      block.from_a = to_a;
      block.from_b = to_b;
    }
    if (!in_place) FillArrays(x, y, size, block);
    const double before = tally.max_abs;
    const uint64_t changed = tally.changed;
    const bool finite = add(block, limits, tally);
    const bool worse =
        !finite || tally.max_abs > before || (tally.worst < 0 && tally.changed > changed);
    if (!worse) continue;
    if (in_place) FillArrays(x, y, size, block);
    if (!finite) AddSlowly(block, size, limits, tally);
    NoteWorst(block, first, size, tally);
  }
}

// --- integers, and floats of a byte

struct Value {
  double number;
  uint64_t order;  // one more for the next larger value
};

template <typename Integer>
Value LoadInteger(const std::byte* from) {
  Integer value;
  std::memcpy(&value, from, sizeof value);
  const uint64_t sign = std::is_signed_v<Integer> ? uint64_t{1} << 63 : 0;
  return {static_cast<double>(value), static_cast<uint64_t>(static_cast<int64_t>(value)) ^ sign};
}

struct IntegerRow {
  Dtype dtype;
  Value (*load)(const std::byte* from);
};
constexpr IntegerRow kIntegers[] = {
    {Dtype::kI8, LoadInteger<int8_t>},   {Dtype::kU8, LoadInteger<uint8_t>},
    {Dtype::kI16, LoadInteger<int16_t>}, {Dtype::kU16, LoadInteger<uint16_t>},
    {Dtype::kI32, LoadInteger<int32_t>}, {Dtype::kU32, LoadInteger<uint32_t>},
    {Dtype::kI64, LoadInteger<int64_t>}, {Dtype::kU64, LoadInteger<uint64_t>},
};

Value Load(Dtype dtype, const std::byte* from) {
  const auto* const row = std::ranges::find(kIntegers, dtype, &IntegerRow::dtype);
  if (row != std::end(kIntegers)) return row->load(from);
  NXDKIT_CHECK(ElementBytes(dtype) == 1);
  const auto bits = std::to_integer<uint64_t>(*from);
  const uint64_t magnitude = bits & 0x7f;
  const bool plain = dtype == Dtype::kBool || dtype == Dtype::kF8E8M0;  // without sign
  return {ElementAsDouble(dtype, from), plain         ? bits
                                        : bits > 0x7f ? 128 - magnitude
                                                      : 128 + magnitude};
}

bool IsFloatOfAByte(Dtype dtype) {
  return ElementBytes(dtype) == 1 && dtype != Dtype::kBool && dtype != Dtype::kI8 &&
         dtype != Dtype::kU8;
}

void DiffOthers(Dtype dtype, const std::byte* a, const std::byte* b, int64_t count,
                const Limits& limits, DiffTally& tally) {
  const auto bytes = static_cast<size_t>(ElementBytes(dtype));
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i) * bytes;
    if (std::memcmp(a + at, b + at, bytes) == 0) continue;
    const Value x = Load(dtype, a + at);
    const Value y = Load(dtype, b + at);
    const uint64_t ulps = x.order > y.order ? x.order - y.order : y.order - x.order;
    // 64-bit integers are more exact than doubles.
    const double error =
        IsFloatOfAByte(dtype) ? ErrorOf(x.number, y.number, false) : static_cast<double>(ulps);
    const bool nan = std::isnan(x.number) || std::isnan(y.number);
    AddChanged(error, std::max(std::fabs(x.number), std::fabs(y.number)), nan, ulps, limits, tally);
    if (tally.worst >= 0 && error <= tally.worst_error) continue;
    tally.worst = i;
    tally.worst_error = error;
  }
}

// The type of the two halves of a complex number; others are themselves.
Dtype PartOf(Dtype dtype) {
  if (dtype == Dtype::kC32) return Dtype::kF16;
  return dtype == Dtype::kC64 ? Dtype::kF32 : dtype == Dtype::kC128 ? Dtype::kF64 : dtype;
}

}  // namespace

void DiffTally::Merge(const DiffTally& next) {
  elements += next.elements;
  changed += next.changed;
  beyond += next.beyond;
  nan += next.nan;
  infinite += next.infinite;
  for (size_t i = 0; i < ulps.size(); ++i) ulps[i] += next.ulps[i];
  max_abs = std::max(max_abs, next.max_abs);
  max_rel = std::max(max_rel, next.max_rel);
  sum_abs += next.sum_abs;
  sum_rel += next.sum_rel;
  if (next.worst < 0) return;
  const bool earlier = next.worst_error == worst_error && next.worst < worst;
  if (worst >= 0 && !(next.worst_error > worst_error) && !earlier) return;
  worst = next.worst;
  worst_error = next.worst_error;
}

bool Comparable(Dtype a, Dtype b) {
  if (ElementBytes(a) == 0 || ElementBytes(b) == 0) return false;
  return a == b || (Info(a).floating && Info(b).floating);
}

DiffTally DiffElements(Dtype a_dtype, const std::byte* a, Dtype b_dtype, const std::byte* b,
                       int64_t count, const DiffLimits& asked) {
  NXDKIT_CHECK(Comparable(a_dtype, b_dtype));
  const Limits limits(asked);
  DiffTally tally;
  const Side x{PartOf(a_dtype), a};
  const Side y{PartOf(b_dtype), b};
  if (x.dtype != a_dtype) count *= 2;
  tally.elements = static_cast<uint64_t>(count);
  if (!Info(x.dtype).floating) {
    DiffOthers(x.dtype, a, b, count, limits, tally);
    return tally;
  }
  const bool wide = x.dtype == Dtype::kF64 || y.dtype == Dtype::kF64;
  const int64_t narrow = std::min(ElementBytes(x.dtype), ElementBytes(y.dtype));
  const bool bf16 = x.dtype == Dtype::kBF16 && y.dtype == Dtype::kBF16;
  if (!wide && narrow == 2)
    DiffFloats<float, uint16_t>(x, y, count, limits, tally, bf16, bf16 ? AddBf16 : AddTo16);
  else if (!wide)
    DiffFloats<float, uint32_t>(x, y, count, limits, tally, true, AddF32);
  else if (narrow == 2)
    DiffFloats<double, uint16_t>(x, y, count, limits, tally, false, AddF64To16);
  else if (narrow == 4)
    DiffFloats<double, uint32_t>(x, y, count, limits, tally, false, AddF64To32);
  else
    DiffFloats<double, uint64_t>(x, y, count, limits, tally, true, AddF64);
  return tally;
}

}  // namespace nxdkit::ops
