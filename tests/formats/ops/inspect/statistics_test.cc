// Statistics compared with values worked out by hand, for every dtype and every way to store a
// tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <random>

#include "formats/ops/inspect/statistics.h"
#include "lib/tensor/tally.h"
#include "tests/formats/memory_sink.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::ops {
namespace {

using testing_util::BytesStorage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
StoredTensor TensorOf(Dtype dtype, Shape shape, const std::vector<T>& values) {
  StoredTensor tensor;
  tensor.name = "t";
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.strides = RowMajorStrides(tensor.shape);
  tensor.storage = std::make_shared<BytesStorage>(BytesOf(values));
  return tensor;
}

std::optional<TensorStatistics> Of(const StoredTensor& tensor, int jobs = 1) {
  const StoredTensor* one = &tensor;
  RunOptions run;
  run.jobs = jobs;
  const auto result = ComputeStatistics(std::span(&one, 1), run);
  if (result.ok()) return result->front();
  ADD_FAILURE() << result.error().ToString();
  return std::nullopt;
}

struct Expected {
  uint64_t elements, nan, inf, zeros;
  std::optional<double> min, max, mean;
};

void ExpectStatistics(const std::optional<TensorStatistics>& found, const Expected& expected) {
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->elements, expected.elements);
  EXPECT_EQ(found->nan, expected.nan);
  EXPECT_EQ(found->inf, expected.inf);
  EXPECT_EQ(found->zeros, expected.zeros);
  EXPECT_EQ(found->min, expected.min);
  EXPECT_EQ(found->max, expected.max);
  EXPECT_EQ(found->mean, expected.mean);
}

TEST(Statistics, OrdinaryF32) {
  ExpectStatistics(Of(TensorOf<float>(Dtype::kF32, {2, 3}, {1, -2, 3, 0, 5, 0.5f})),
                   {6, 0, 0, 1, -2, 5, 7.5 / 6});
}

TEST(Statistics, NanAndInfinityAreCountedAndLeftOut) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  ExpectStatistics(Of(TensorOf<float>(Dtype::kF32, {8}, {nan, 1, -nan, inf, -inf, 2, -0.0f, nan})),
                   {8, 3, 2, 1, 0, 2, 1});
  ExpectStatistics(Of(TensorOf<float>(Dtype::kF32, {3}, {nan, inf, -inf})),
                   {3, 1, 2, 0, std::nullopt, std::nullopt, std::nullopt});
}

TEST(Statistics, MinusZeroIsAZeroAndHasNoSign) {
  const auto found = Of(TensorOf<float>(Dtype::kF32, {2}, {-0.0f, -0.0f}));
  ExpectStatistics(found, {2, 0, 0, 2, 0, 0, 0});
  EXPECT_FALSE(std::signbit(*found->min));
  EXPECT_FALSE(std::signbit(*found->max));
  EXPECT_FALSE(std::signbit(*found->mean));
}

TEST(Statistics, SubnormalsAreNoZeros) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  ExpectStatistics(Of(TensorOf<float>(Dtype::kF32, {2}, {tiny, -tiny})),
                   {2, 0, 0, 0, -0x1p-149, 0x1p-149, 0});
  ExpectStatistics(Of(TensorOf<uint16_t>(Dtype::kBF16, {2}, {0x0001, 0x8003})),
                   {2, 0, 0, 0, -3 * 0x1p-133, 0x1p-133, -0x1p-133});
  ExpectStatistics(Of(TensorOf<uint16_t>(Dtype::kF16, {2}, {0x0001, 0x8003})),
                   {2, 0, 0, 0, -3 * 0x1p-24, 0x1p-24, -0x1p-24});
  ExpectStatistics(Of(TensorOf<uint64_t>(Dtype::kF64, {1}, {1})),
                   {1, 0, 0, 0, 0x1p-1074, 0x1p-1074, 0x1p-1074});
}

TEST(Statistics, HalfPrecision) {
  // 1, -2, NaN, infinity, 65504 (the largest), -0
  ExpectStatistics(
      Of(TensorOf<uint16_t>(Dtype::kF16, {6}, {0x3c00, 0xc000, 0x7e01, 0x7c00, 0x7bff, 0x8000})),
      {6, 1, 1, 1, -2, 65504, 65503.0 / 4});
  // 1, -2, NaN, -infinity, 3.3895e38 (the largest), 0
  ExpectStatistics(
      Of(TensorOf<uint16_t>(Dtype::kBF16, {6}, {0x3f80, 0xc000, 0xffc0, 0xff80, 0x7f7f, 0x0000})),
      {6, 1, 1, 1, -2, 0x1.fep127, (0x1.fep127 + 1 - 2) / 4});
}

TEST(Statistics, Integers) {
  ExpectStatistics(Of(TensorOf<int8_t>(Dtype::kI8, {4}, {-128, 127, 0, 1})),
                   {4, 0, 0, 1, -128, 127, 0});
  ExpectStatistics(Of(TensorOf<uint8_t>(Dtype::kU8, {3}, {255, 0, 0})), {3, 0, 0, 2, 0, 255, 85});
  ExpectStatistics(Of(TensorOf<uint8_t>(Dtype::kBool, {4}, {1, 0, 1, 1})),
                   {4, 0, 0, 1, 0, 1, 0.75});
  ExpectStatistics(Of(TensorOf<int16_t>(Dtype::kI16, {2}, {-32768, 2})),
                   {2, 0, 0, 0, -32768, 2, -16383});
  ExpectStatistics(Of(TensorOf<uint16_t>(Dtype::kU16, {2}, {65535, 1})),
                   {2, 0, 0, 0, 1, 65535, 32768});
  ExpectStatistics(Of(TensorOf<int32_t>(Dtype::kI32, {1}, {7})), {1, 0, 0, 0, 7, 7, 7});
  ExpectStatistics(Of(TensorOf<uint32_t>(Dtype::kU32, {2}, {0xffffffff, 1})),
                   {2, 0, 0, 0, 1, 4294967295.0, 2147483648.0});
  ExpectStatistics(
      Of(TensorOf<int64_t>(Dtype::kI64, {2}, {std::numeric_limits<int64_t>::min(), 0})),
      {2, 0, 0, 1, -0x1p63, 0, -0x1p62});
  ExpectStatistics(Of(TensorOf<uint64_t>(Dtype::kU64, {1}, {uint64_t{1} << 63})),
                   {1, 0, 0, 0, 0x1p63, 0x1p63, 0x1p63});
}

TEST(Statistics, EightBitFloats) {
  // E4M3: 1, -0, NaN, 448. E5M2: 1, infinity, NaN, -2.
  ExpectStatistics(Of(TensorOf<uint8_t>(Dtype::kF8E4M3, {4}, {0x38, 0x80, 0x7f, 0x7e})),
                   {4, 1, 0, 1, 0, 448, 449.0 / 3});
  ExpectStatistics(Of(TensorOf<uint8_t>(Dtype::kF8E5M2, {4}, {0x3c, 0x7c, 0x7d, 0xc0})),
                   {4, 1, 1, 0, -2, 1, -0.5});
}

TEST(Statistics, DtypesWithoutOrderHaveNone) {
  EXPECT_FALSE(Of(TensorOf<float>(Dtype::kC64, {1}, {1, 2})).has_value());
  EXPECT_FALSE(Of(TensorOf<uint8_t>(Dtype::kF4, {2}, {0x12})).has_value());
}

TEST(Statistics, EmptyAndScalarTensors) {
  ExpectStatistics(Of(TensorOf<float>(Dtype::kF32, {3, 0, 2}, {})),
                   {0, 0, 0, 0, std::nullopt, std::nullopt, std::nullopt});
  ExpectStatistics(Of(TensorOf<float>(Dtype::kF32, {}, {4})), {1, 0, 0, 0, 4, 4, 4});
}

TEST(Statistics, StridesOffsetsAndRepeats) {
  // 4 x 4 of 0..15, seen in pieces.
  std::vector<float> values(16);
  for (size_t i = 0; i < 16; ++i) values[i] = static_cast<float>(i);
  StoredTensor tensor = TensorOf<float>(Dtype::kF32, {4, 4}, values);
  tensor.strides = {1, 4};  // transposed
  ExpectStatistics(Of(tensor), {16, 0, 0, 1, 0, 15, 7.5});
  tensor.shape = {4};  // the second column: 1, 5, 9, 13
  tensor.strides = {4};
  tensor.offset = 4;
  ExpectStatistics(Of(tensor), {4, 0, 0, 0, 1, 13, 7});
  tensor.shape = {2, 2};  // rows 1 and 3, columns 1 and 2: 5, 6, 13, 14
  tensor.strides = {8, 1};
  tensor.offset = 20;
  ExpectStatistics(Of(tensor), {4, 0, 0, 0, 5, 14, 9.5});
  tensor.shape = {2, 1'000'000'000, 2};  // the same, repeated by a stride of 0
  tensor.strides = {8, 0, 1};
  ExpectStatistics(Of(tensor), {4'000'000'000, 0, 0, 0, 5, 14, 9.5});
}

TEST(Statistics, BigEndian) {
  StoredTensor tensor = TensorOf<uint32_t>(
      Dtype::kF32, {2}, {__builtin_bswap32(0x3f800000), __builtin_bswap32(0xc0000000)});
  tensor.big_endian = true;
  ExpectStatistics(Of(tensor), {2, 0, 0, 0, -2, 1, -0.5});
  StoredTensor strided = TensorOf<uint16_t>(Dtype::kBF16, {2}, {0x803f, 0xffff, 0x0040});
  strided.strides = {2};
  strided.big_endian = true;
  ExpectStatistics(Of(strided), {2, 0, 0, 0, 1, 2, 1.5});
}

// Large enough for many pieces and runs, with a NaN, an infinity and zeros at their edges.
std::vector<float> LargeValues(size_t count) {
  std::mt19937 random(7);
  std::vector<float> values(count);
  for (float& value : values)
    value = static_cast<float>(static_cast<int32_t>(random() % 2'000'001) - 1'000'000) / 1024.0f;
  for (const size_t at : {size_t{0}, size_t{65'535}, size_t{65'536}, count - 1}) values[at] = 0;
  values[4096] = std::numeric_limits<float>::infinity();
  values[count / 2] = std::numeric_limits<float>::quiet_NaN();
  return values;
}

TEST(Statistics, LargeTensorsAgainstTheObviousLoop) {
  const std::vector<float> values = LargeValues(5'000'011);
  uint64_t zeros = 0;
  double min = kInfinity;
  double max = -kInfinity;
  long double sum = 0;  // exact: multiples of 2^-10
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    zeros += value == 0;
    min = std::min(min, static_cast<double>(value));
    max = std::max(max, static_cast<double>(value));
    sum += value;
  }
  const double mean = static_cast<double>(sum) / static_cast<double>(values.size() - 2);
  const Expected expected{values.size(), 1, 1, zeros, min, max, mean};
  const StoredTensor packed =
      TensorOf<float>(Dtype::kF32, {static_cast<int64_t>(values.size())}, values);
  ExpectStatistics(Of(packed, 1), expected);
  ExpectStatistics(Of(packed, 4), expected);
  // Every other element of a row twice as long.
  std::vector<float> spread(2 * values.size(), 1e30f);
  for (size_t i = 0; i < values.size(); ++i) spread[2 * i] = values[i];
  StoredTensor strided = TensorOf<float>(Dtype::kF32, packed.shape, spread);
  strided.strides = {2};
  ExpectStatistics(Of(strided, 2), expected);
}

TEST(Statistics, TheSameToTheLastBitAtAnyNumberOfThreads) {
  std::mt19937_64 random(3);
  std::vector<double> values(3'000'001);
  for (double& value : values) value = std::ldexp(static_cast<double>(random()), -70);
  const StoredTensor tensor =
      TensorOf<double>(Dtype::kF64, {static_cast<int64_t>(values.size())}, values);
  const double mean = *Of(tensor, 1)->mean;
  for (const int jobs : {2, 3, 8}) EXPECT_EQ(*Of(tensor, jobs)->mean, mean) << jobs;
}

TEST(Statistics, KernelsAgreeOnEveryLengthAndAlignment) {
  std::vector<uint16_t> halves(300);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(0x3f80 + i);
  const std::vector<std::byte> bytes = BytesOf(halves);
  for (int64_t from = 0; from < 5; ++from)
    for (int64_t count = 0; count < 200; ++count) {
      double sum = 0;
      for (int64_t i = from; i < from + count; ++i)
        sum += ElementAsDouble(Dtype::kBF16, bytes.data() + 2 * i);
      const Tally tally = TallyElements(Dtype::kBF16, bytes.data() + 2 * from, count);
      ASSERT_EQ(tally.sum, sum) << from << " " << count;
      ASSERT_EQ(tally.elements, static_cast<uint64_t>(count));
      if (count > 0) {
        ASSERT_EQ(tally.min, ElementAsDouble(Dtype::kBF16, bytes.data() + 2 * from));
      }
    }
}

TEST(Statistics, EveryHalfPrecisionNumberAsElementAsDoubleSeesIt) {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16}) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<uint16_t>(bits);
      // Among ordinary numbers, so that the fast loop sees it.
      std::vector<uint16_t> values(16, 0);
      values[bits % 16] = half;
      const Tally tally = TallyElements(dtype, BytesOf(values).data(), 16);
      const double value = ElementAsDouble(dtype, reinterpret_cast<const std::byte*>(&half));
      ASSERT_EQ(tally.nan, std::isnan(value) ? 1u : 0u) << bits;
      ASSERT_EQ(tally.inf, std::isinf(value) ? 1u : 0u) << bits;
      ASSERT_EQ(tally.zeros, value == 0 ? 16u : 15u) << bits;
      ASSERT_EQ(tally.sum, std::isfinite(value) ? value : 0) << bits;
    }
  }
}

TEST(Statistics, ReadErrorsNameTheTensor) {
  StoredTensor tensor = TensorOf<float>(Dtype::kF32, {4}, {1, 2});
  const StoredTensor* one = &tensor;
  const auto error = testing_util::ExpectError(ComputeStatistics(std::span(&one, 1), RunOptions{}),
                                               Errc::kCorrupt, "read past the end");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "t");
}

TEST(Statistics, StopsWhenAsked) {
  const StoredTensor tensor = TensorOf<float>(Dtype::kF32, {2}, {1, 2});
  const StoredTensor* one = &tensor;
  RunOptions run;
  run.poll = [] { return Status(Error(Errc::kInterrupted, "stopped by SIGINT")); };
  testing_util::ExpectError(ComputeStatistics(std::span(&one, 1), run), Errc::kInterrupted,
                            "stopped by SIGINT");
}

TEST(Statistics, MemoryCapThatCannotBeMet) {
  const StoredTensor tensor = TensorOf<float>(Dtype::kF32, {2}, {1, 2});
  const StoredTensor* one = &tensor;
  RunOptions run;
  run.max_memory = 1 << 20;
  testing_util::ExpectError(ComputeStatistics(std::span(&one, 1), run), Errc::kLimit,
                            "the cap is 1048576");
}

TEST(Statistics, TellsItsProgress) {
  const StoredTensor tensor =
      TensorOf<float>(Dtype::kF32, {1'000'000}, std::vector<float>(1'000'000, 1.0f));
  const StoredTensor* one = &tensor;
  RunOptions run;
  std::string phase;
  uint64_t total = 0;
  uint64_t done = 0;
  std::mutex mutex;
  run.begin = [&](const std::string& name, uint64_t bytes) {
    phase = name;
    total = bytes;
  };
  run.on_bytes = [&](uint64_t bytes) {
    const std::lock_guard lock(mutex);
    done += bytes;
  };
  run.jobs = 2;
  ASSERT_TRUE(ComputeStatistics(std::span(&one, 1), run).ok());
  EXPECT_EQ(phase, "statistics");
  EXPECT_EQ(total, 4'000'000u);
  EXPECT_EQ(done, 4'000'000u);
}

}  // namespace
}  // namespace nxdkit::ops
