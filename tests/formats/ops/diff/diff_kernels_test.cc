// The loops of ckpt-diff compared with a plain one, element by element in double precision.
#include "formats/ops/diff/diff_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace nxdkit::ops {
namespace {

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes Pack(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

DiffTally Diff(Dtype a_dtype, const Bytes& a, Dtype b_dtype, const Bytes& b,
               const DiffLimits& limits = {}) {
  const auto count = static_cast<int64_t>(a.size()) / ElementBytes(a_dtype);
  return DiffElements(a_dtype, a.data(), b_dtype, b.data(), count, limits);
}

// --- the plain loop

int64_t Ordered(Dtype dtype, const std::byte* element) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, static_cast<size_t>(ElementBytes(dtype)));
  const int width = static_cast<int>(ElementBytes(dtype)) * 8;
  const uint64_t magnitude = bits & ((uint64_t{1} << (width - 1)) - 1);
  const auto value = static_cast<int64_t>(magnitude);
  return (bits >> (width - 1)) != 0 ? -value : value;
}

int Mantissa(Dtype dtype) {
  return dtype == Dtype::kBF16 ? 7 : dtype == Dtype::kF16 ? 10 : dtype == Dtype::kF32 ? 23 : 52;
}

DiffTally Naive(Dtype a_dtype, const Bytes& a, Dtype b_dtype, const Bytes& b,
                const DiffLimits& limits) {
  DiffTally tally;
  const auto count = static_cast<int64_t>(a.size()) / ElementBytes(a_dtype);
  tally.elements = static_cast<uint64_t>(count);
  const Dtype narrow = Mantissa(a_dtype) < Mantissa(b_dtype) ? a_dtype : b_dtype;
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* x = a.data() + i * ElementBytes(a_dtype);
    const std::byte* y = b.data() + i * ElementBytes(b_dtype);
    const double p = ElementAsDouble(a_dtype, x);
    const double q = ElementAsDouble(b_dtype, y);
    const bool same = a_dtype == b_dtype
                          ? std::memcmp(x, y, static_cast<size_t>(ElementBytes(a_dtype))) == 0
                          : std::bit_cast<uint64_t>(p) == std::bit_cast<uint64_t>(q);
    if (same) continue;
    ++tally.changed;
    std::byte nx[8];
    std::byte ny[8];
    ConvertElements(a_dtype, x, narrow, nx, 1);
    ConvertElements(b_dtype, y, narrow, ny, 1);
    const int64_t above = std::max(Ordered(narrow, nx), Ordered(narrow, ny));
    const int64_t below = std::min(Ordered(narrow, nx), Ordered(narrow, ny));
    const uint64_t ulps = static_cast<uint64_t>(above) - static_cast<uint64_t>(below);
    const double error = std::fabs(p - q);
    const double scale = std::max(std::fabs(p), std::fabs(q));
    const bool nan = std::isnan(p) || std::isnan(q);
    bool within = limits.max_ulp || limits.atol || limits.rtol;
    within &= !nan && std::isfinite(error);
    if (limits.max_ulp) within &= ulps <= *limits.max_ulp;
    if (limits.atol || limits.rtol)
      within &= error <= limits.atol.value_or(0) + limits.rtol.value_or(0) * scale;
    if (!within) ++tally.beyond;
    const double rank = nan ? std::numeric_limits<double>::infinity() : error;
    if (tally.worst < 0 || rank > tally.worst_error) {
      tally.worst = i;
      tally.worst_error = rank;
    }
    if (nan) {
      ++tally.nan;
      continue;
    }
    if (std::isinf(error)) {
      ++tally.infinite;
      continue;
    }
    size_t bucket = 0;
    while (bucket < 65 && (bucket == 0 ? ulps > 0 : ulps > (uint64_t{1} << (bucket - 1)))) ++bucket;
    ++tally.ulps[bucket];
    tally.max_abs = std::max(tally.max_abs, error);
    tally.max_rel = std::max(tally.max_rel, scale > 0 ? error / scale : 0);
    tally.sum_abs += error;
    tally.sum_rel += scale > 0 ? error / scale : 0;
  }
  return tally;
}

void ExpectNear(double found, double expected, const char* what) {
  EXPECT_LE(std::fabs(found - expected), 1e-5 * std::fabs(expected)) << what << " " << expected;
}

void ExpectSame(const DiffTally& found, const DiffTally& expected) {
  EXPECT_EQ(found.elements, expected.elements);
  EXPECT_EQ(found.changed, expected.changed);
  EXPECT_EQ(found.beyond, expected.beyond);
  EXPECT_EQ(found.nan, expected.nan);
  EXPECT_EQ(found.infinite, expected.infinite);
  EXPECT_EQ(found.ulps, expected.ulps);
  EXPECT_EQ(found.worst, expected.worst);
  EXPECT_EQ(found.worst_error, expected.worst_error);
  ExpectNear(found.max_abs, expected.max_abs, "max_abs");
  ExpectNear(found.max_rel, expected.max_rel, "max_rel");
  ExpectNear(found.sum_abs, expected.sum_abs, "sum_abs");
  ExpectNear(found.sum_rel, expected.sum_rel, "sum_rel");
}

// Values of typical weights; with `odd`, one in 600 is an infinity, a NaN, a zero of some sign, or
// huge.
Bytes Values(std::mt19937& random, Dtype dtype, int64_t count, bool odd) {
  std::normal_distribution<double> normal(0, 0.02);
  const double specials[] = {0.0,
                             -0.0,
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             std::nan(""),
                             3e38,
                             -3e38,
                             1e-40};
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values)
    value = odd && random() % 600 == 0 ? specials[random() % 8] : normal(random);
  Bytes out(values.size() * static_cast<size_t>(ElementBytes(dtype)));
  ConvertElements(Dtype::kF64, Pack(values).data(), dtype, out.data(), count);
  return out;
}

// The same values again, some of them a few ulps off.
Bytes Nudged(std::mt19937& random, Dtype from_dtype, const Bytes& from, Dtype dtype) {
  const auto count = static_cast<int64_t>(from.size()) / ElementBytes(from_dtype);
  const auto size = static_cast<size_t>(ElementBytes(dtype));
  Bytes out(static_cast<size_t>(count) * size);
  ConvertElements(from_dtype, from.data(), dtype, out.data(), count);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i)
    if (random() % 3 == 0) out[i * size] ^= static_cast<std::byte>(random() % 16);
  return out;
}

constexpr Dtype kFloats[] = {Dtype::kBF16, Dtype::kF16, Dtype::kF32, Dtype::kF64};

std::vector<DiffLimits> SomeLimits() {
  std::vector<DiffLimits> limits(5);
  limits[1].max_ulp = 3;
  limits[2].atol = 1e-4;
  limits[3].rtol = 1e-3;
  limits[4] = {8, 1e-5, 1e-2};
  return limits;
}

TEST(DiffElements, EqualsThePlainLoopForEveryPairOfTypes) {
  std::mt19937 random(1);
  for (const Dtype a_dtype : kFloats)
    for (const Dtype b_dtype : kFloats)
      for (const int64_t count : {0, 1, 7, 1023, 1024, 1025, 5000})
        for (const bool odd : {false, true}) {
          const Bytes a = Values(random, a_dtype, count, odd);
          const Bytes near = Nudged(random, a_dtype, a, b_dtype);
          const Bytes far = Values(random, b_dtype, count, odd);
          for (const DiffLimits& limits : SomeLimits())
            for (const Bytes* b : {&near, &far}) {
              SCOPED_TRACE(std::string(Name(a_dtype)) + " " + std::string(Name(b_dtype)) + " " +
                           std::to_string(count) + (odd ? " odd" : ""));
              ExpectSame(Diff(a_dtype, a, b_dtype, *b, limits),
                         Naive(a_dtype, a, b_dtype, *b, limits));
              if (::testing::Test::HasFailure()) return;
            }
        }
}

TEST(DiffElements, NeedsNoAlignment) {
  std::mt19937 random(2);
  const Bytes a = Values(random, Dtype::kF32, 2000, false);
  const Bytes b = Nudged(random, Dtype::kF32, a, Dtype::kF32);
  Bytes shifted(b.size() + 1);
  std::memcpy(shifted.data() + 1, b.data(), b.size());
  ExpectSame(DiffElements(Dtype::kF32, a.data(), Dtype::kF32, shifted.data() + 1, 2000, {}),
             Naive(Dtype::kF32, a, Dtype::kF32, b, {}));
}

// --- rules, one by one

DiffTally DiffBf16(uint16_t a, uint16_t b, const DiffLimits& limits = {}) {
  return Diff(Dtype::kBF16, Pack<uint16_t>({a}), Dtype::kBF16, Pack<uint16_t>({b}), limits);
}

TEST(DiffElements, ZerosOfTwoSignsAreChangedByNothing) {
  const DiffTally tally = DiffBf16(0x0000, 0x8000);
  EXPECT_EQ(tally.changed, 1u);
  EXPECT_EQ(tally.beyond, 1u);
  EXPECT_EQ(tally.ulps[0], 1u);
  EXPECT_EQ(tally.max_abs, 0);
  EXPECT_EQ(tally.worst, 0);
  DiffLimits none;
  none.max_ulp = 0;
  EXPECT_EQ(DiffBf16(0x0000, 0x8000, none).beyond, 0u);
}

TEST(DiffElements, ANanEqualsItselfOnly) {
  EXPECT_EQ(DiffBf16(0x7fc0, 0x7fc0).changed, 0u);
  const DiffLimits wide{UINT64_MAX, 1e300, 1e300};
  for (const auto& [a, b] : {std::pair{0x7fc0, 0x7fc1}, std::pair{0x7fc1, 0x7f81},
                             std::pair{0x7fc0, 0x3f80}, std::pair{0x3f80, 0x7fc0}}) {
    const DiffTally tally = DiffBf16(static_cast<uint16_t>(a), static_cast<uint16_t>(b), wide);
    EXPECT_EQ(tally.nan, 1u) << a << " " << b;
    EXPECT_EQ(tally.changed, 1u);
    EXPECT_EQ(tally.beyond, 1u) << "no limit lets a NaN pass";
    EXPECT_EQ(tally.infinite, 0u);
    EXPECT_EQ(tally.sum_abs, 0);
    EXPECT_EQ(tally.worst, 0);
  }
}

TEST(DiffElements, AnInfinityEqualsItselfOnly) {
  EXPECT_EQ(DiffBf16(0x7f80, 0x7f80).changed, 0u);
  const DiffLimits wide{UINT64_MAX, 1e300, 1e300};
  for (const uint16_t other : {uint16_t{0xff80}, uint16_t{0x3f80}}) {
    const DiffTally tally = DiffBf16(0x7f80, other, wide);
    EXPECT_EQ(tally.infinite, 1u);
    EXPECT_EQ(tally.beyond, 1u);
    EXPECT_EQ(tally.nan, 0u);
  }
}

// The difference of the two largest values does not fit F32.
TEST(DiffElements, AnErrorBeyondF32IsNotInfinite) {
  const DiffTally tally = DiffBf16(0x7f7f, 0xff7f);
  EXPECT_EQ(tally.infinite, 0u);
  EXPECT_NEAR(tally.max_abs, 6.779e38, 1e36);
  EXPECT_EQ(tally.max_rel, 2);
  EXPECT_EQ(tally.ulps[17], 1u) << "65278 ulps: more than 2^15, at most 2^16";
}

TEST(DiffElements, CountsUlpsInTheNarrowerType) {
  // 1 + 2^-10 rounds to 1 in BF16, 1 + 2^-7 is the next value.
  const Bytes a = Pack<float>({1.0f + 0x1p-10f, 1.0f + 0x1p-7f, 1.0f});
  const Bytes b = Pack<uint16_t>({0x3f80, 0x3f80, 0x3f80});
  const DiffTally tally = Diff(Dtype::kF32, a, Dtype::kBF16, b);
  EXPECT_EQ(tally.changed, 2u);
  EXPECT_EQ(tally.ulps[0], 1u);
  EXPECT_EQ(tally.ulps[1], 1u);
  EXPECT_EQ(tally.worst, 1);
  EXPECT_EQ(tally.worst_error, 0x1p-7);
  EXPECT_EQ(Diff(Dtype::kBF16, b, Dtype::kF32, a).ulps, tally.ulps);
}

TEST(DiffElements, OfIntegersUlpsAreTheDifference) {
  const Bytes a = Pack<int64_t>({INT64_MIN, 5, int64_t{1} << 60, -1});
  const Bytes b = Pack<int64_t>({INT64_MAX, 8, (int64_t{1} << 60) + 1, -1});
  const DiffTally tally = Diff(Dtype::kI64, a, Dtype::kI64, b);
  EXPECT_EQ(tally.changed, 3u);
  EXPECT_EQ(tally.ulps[1], 1u);
  EXPECT_EQ(tally.ulps[3], 1u);
  EXPECT_EQ(tally.ulps[65], 1u);
  EXPECT_EQ(tally.worst, 0);
  EXPECT_EQ(tally.worst_error, std::ldexp(1.0, 64));
  DiffLimits limits;
  limits.atol = 1;
  EXPECT_EQ(Diff(Dtype::kI64, a, Dtype::kI64, b, limits).beyond, 2u);
}

TEST(DiffElements, OfFloatsOfAByte) {
  // 1, its neighbour, -1, NaN of E4M3.
  const Bytes a = Pack<uint8_t>({0x38, 0x38, 0x38, 0x38});
  const Bytes b = Pack<uint8_t>({0x38, 0x39, 0xb8, 0x7f});
  const DiffTally tally = Diff(Dtype::kF8E4M3, a, Dtype::kF8E4M3, b);
  EXPECT_EQ(tally.changed, 3u);
  EXPECT_EQ(tally.nan, 1u);
  EXPECT_EQ(tally.ulps[1], 1u);
  EXPECT_EQ(tally.ulps[8], 1u) << "112 ulps";
  EXPECT_EQ(tally.max_abs, 2);
  EXPECT_EQ(tally.worst, 3);
}

TEST(DiffElements, AComplexNumberIsTwo) {
  const Bytes a = Pack<float>({1, 2, 3, 4});
  const Bytes b = Pack<float>({1, 2, 3, 5});
  const DiffTally tally = DiffElements(Dtype::kC64, a.data(), Dtype::kC64, b.data(), 2, {});
  EXPECT_EQ(tally.elements, 4u);
  EXPECT_EQ(tally.changed, 1u);
  EXPECT_EQ(tally.worst, 3);
}

TEST(Comparable, FloatsWithEachOtherAndTypesWithThemselves) {
  EXPECT_TRUE(Comparable(Dtype::kBF16, Dtype::kF64));
  EXPECT_TRUE(Comparable(Dtype::kI8, Dtype::kI8));
  EXPECT_TRUE(Comparable(Dtype::kF8E5M2, Dtype::kF8E5M2));
  EXPECT_FALSE(Comparable(Dtype::kI8, Dtype::kU8));
  EXPECT_FALSE(Comparable(Dtype::kF32, Dtype::kI32));
  EXPECT_FALSE(Comparable(Dtype::kF4, Dtype::kF4));
}

TEST(DiffTally, MergeKeepsTheFirstOfTheWorst) {
  DiffTally a;
  DiffTally b;
  b.worst = 7;
  b.worst_error = 1;
  a.Merge(b);
  EXPECT_EQ(a.worst, 7);
  b.worst = 3;
  a.Merge(b);
  EXPECT_EQ(a.worst, 3) << "the same error, earlier";
  b.worst = 1;
  b.worst_error = 0.5;
  a.Merge(b);
  EXPECT_EQ(a.worst, 3) << "a smaller error";
  b.worst = 9;
  b.worst_error = 2;
  a.Merge(b);
  EXPECT_EQ(a.worst, 9);
}

}  // namespace
}  // namespace nxdkit::ops
