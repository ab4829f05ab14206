// The sums of ckpt-diff's norms against plain ones in long double.
#include "formats/ops/diff/squares.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "formats/ops/diff/diff_kernels.h"

namespace nxdkit::ops {
namespace {

using PackedBytes = std::vector<std::byte>;

struct Plain {
  long double a = 0;
  long double update = 0;
};

Plain PlainSquares(Dtype a_dtype, const PackedBytes& a, Dtype b_dtype, const PackedBytes& b) {
  Plain sums;
  const auto count = static_cast<int64_t>(a.size()) / ElementBytes(a_dtype);
  for (int64_t i = 0; i < count; ++i) {
    const double x = ElementAsDouble(a_dtype, a.data() + i * ElementBytes(a_dtype));
    const double y = ElementAsDouble(b_dtype, b.data() + i * ElementBytes(b_dtype));
    if (std::isfinite(x)) sums.a += static_cast<long double>(x) * x;
    const double update = y - x;
    if (std::isfinite(update)) sums.update += static_cast<long double>(update) * update;
  }
  return sums;
}

// Any bits of a type: NaNs and infinities too, for floating ones of a moderate size.
PackedBytes RandomElements(std::mt19937& random, Dtype dtype, int64_t count) {
  PackedBytes bytes(static_cast<size_t>(count * ElementBytes(dtype)));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  if (!Info(dtype).floating) return bytes;
  std::normal_distribution<double> normal(0, 0.02);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = normal(random);
  for (size_t i = 17; i < values.size(); i += 100)
    values[i] = i % 200 == 17 ? std::numeric_limits<double>::infinity() : std::nan("");
  ConvertElements(Dtype::kF64, reinterpret_cast<const std::byte*>(values.data()), dtype,
                  bytes.data(), count);
  return bytes;
}

void ExpectPlain(Dtype a_dtype, const PackedBytes& a, Dtype b_dtype, const PackedBytes& b) {
  const auto count = static_cast<int64_t>(a.size()) / ElementBytes(a_dtype);
  const Squares found = SumSquares(a_dtype, a.data(), b_dtype, b.data(), count);
  const Plain expected = PlainSquares(a_dtype, a, b_dtype, b);
  const auto near = [](double x, long double y) {
    return std::fabs(static_cast<long double>(x) - y) <= 1e-13L * y;
  };
  EXPECT_TRUE(near(found.a, expected.a)) << found.a << " " << static_cast<double>(expected.a);
  EXPECT_TRUE(near(found.update, expected.update))
      << found.update << " " << static_cast<double>(expected.update);
}

TEST(SumSquares, EqualsThePlainSumForEveryPairOfTypes) {
  std::mt19937 random(1);
  for (const Dtype a_dtype : {Dtype::kBF16, Dtype::kF16, Dtype::kF32, Dtype::kF64, Dtype::kF8E4M3,
                              Dtype::kF8E5M2, Dtype::kI8, Dtype::kU8, Dtype::kI32, Dtype::kI64})
    for (const Dtype b_dtype : {Dtype::kBF16, Dtype::kF16, Dtype::kF32, Dtype::kF64, Dtype::kF8E4M3,
                                Dtype::kF8E5M2, Dtype::kI8, Dtype::kU8, Dtype::kI32, Dtype::kI64})
      for (const int64_t count : {0, 1, 7, 8, 9, 1023, 1024, 3001}) {
        if (!Comparable(a_dtype, b_dtype)) continue;
        SCOPED_TRACE(std::string(Name(a_dtype)) + " " + std::string(Name(b_dtype)) + " " +
                     std::to_string(count));
        ExpectPlain(a_dtype, RandomElements(random, a_dtype, count), b_dtype,
                    RandomElements(random, b_dtype, count));
      }
}

TEST(SumSquares, NeedsNoAlignment) {
  std::mt19937 random(2);
  const PackedBytes a = RandomElements(random, Dtype::kF32, 1000);
  PackedBytes shifted(a.size() + 1);
  std::memcpy(shifted.data() + 1, a.data(), a.size());
  const Squares found = SumSquares(Dtype::kF32, a.data(), Dtype::kF32, shifted.data() + 1, 1000);
  EXPECT_EQ(found.update, 0);
  EXPECT_EQ(found.a, SumSquares(Dtype::kF32, shifted.data() + 1, Dtype::kF32, a.data(), 1000).a);
}

TEST(SumSquares, AComplexNumberIsTwo) {
  const float a[] = {3, 4};
  const float b[] = {3, 6};
  const Squares found = SumSquares(Dtype::kC64, reinterpret_cast<const std::byte*>(a), Dtype::kC64,
                                   reinterpret_cast<const std::byte*>(b), 1);
  EXPECT_EQ(found.a, 25);
  EXPECT_EQ(found.update, 4);
}

// F32 would lose the small ones, and its square is too large for it.
TEST(SumSquares, AreInF64) {
  const float a[] = {1e30F, 1, 1e-30F};
  const float b[] = {0, 0, 0};
  const Squares found = SumSquares(Dtype::kF32, reinterpret_cast<const std::byte*>(a), Dtype::kF32,
                                   reinterpret_cast<const std::byte*>(b), 3);
  EXPECT_DOUBLE_EQ(found.a, static_cast<double>(1e30F) * static_cast<double>(1e30F));
  EXPECT_EQ(found.update, found.a);
}

}  // namespace
}  // namespace nxdkit::ops
