// CompareSink finds each difference: its place, its values and the count, however the tensor is
// stored.
#include "lib/sinks/compare_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "tests/formats/memory_sink.h"
#include "tests/lib/expect_error.h"
#include "tests/lib/plan/plan_fixture.h"

namespace nxdkit {
namespace {

using testing_util::CountingStorage;
using testing_util::ExpectError;
using testing_util::LayoutOf;
using testing_util::Packed;
using testing_util::RowsOf;
using testing_util::WholeOf;

template <typename T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// Compares one tensor with predicted bytes, given in chunks of `chunk` bytes.
std::vector<Difference> Compare(const StoredTensor& stored, const std::vector<std::byte>& predicted,
                                size_t chunk) {
  BoundLayout actual{LayoutOf({WholeOf(stored.name, 0, stored.shape)}), {stored}};
  const std::vector<OutputTensor> outputs = {{stored.name, stored.dtype, stored.shape}};
  CompareSink sink(actual, outputs);
  // Backwards: the order of chunks must not matter.
  for (size_t end = predicted.size(); end > 0;) {
    const size_t begin = (end - 1) / chunk * chunk;
    const Status status = sink.Take(0, begin, std::span(predicted).subspan(begin, end - begin));
    EXPECT_TRUE(status.ok()) << status.error().ToString();
    end = begin;
  }
  return sink.differences();
}

StoredTensor PackedOf(Dtype dtype, Shape shape, std::vector<std::byte> bytes) {
  return Packed("t", dtype, std::move(shape), std::make_shared<CountingStorage>(std::move(bytes)));
}

TEST(CompareSink, FindsNothingInEqualBytes) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const StoredTensor stored = PackedOf(Dtype::kF32, {2, 3}, BytesOf(values));
  for (const size_t chunk : {4, 8, 12, 24}) {
    EXPECT_TRUE(Compare(stored, BytesOf(values), chunk).empty());
  }
}

TEST(CompareSink, GivesFirstCountAndBothValues) {
  const StoredTensor stored = PackedOf(Dtype::kF32, {2, 3}, BytesOf<float>({1, 2, 3, 4, 5, 6}));
  for (const size_t chunk : {4, 8, 12, 24}) {
    const auto differences = Compare(stored, BytesOf<float>({1, 2, 3.5, 4, 5, 0.125}), chunk);
    ASSERT_EQ(differences.size(), 1u);
    EXPECT_EQ(differences[0].tensor, 0u);
    EXPECT_EQ(differences[0].first, 2);
    EXPECT_EQ(differences[0].count, 2);
    EXPECT_EQ(differences[0].expected, "3.5 (0x40600000)");
    EXPECT_EQ(differences[0].found, "3 (0x40400000)");
  }
}

// Counting goes by blocks and by vectors: runs of every length up to several of them.
TEST(CompareSink, CountsElementsOfEveryWidth) {
  for (const Dtype dtype : {Dtype::kU8, Dtype::kBF16, Dtype::kF32, Dtype::kI64, Dtype::kC128}) {
    const int64_t width = ElementBytes(dtype);
    for (const int64_t count : {1, 191, 193, 16'384, 40'001}) {
      std::vector<std::byte> stored(static_cast<size_t>(count * width), std::byte{0x11});
      std::vector<std::byte> expected = stored;
      int64_t different = 0;
      for (int64_t i = count / 2; i < count; i += i % 3 + 1, ++different)
        expected[static_cast<size_t>(i * width + i % width)] = std::byte{0x12};
      const auto differences = Compare(PackedOf(dtype, {count}, stored), expected, expected.size());
      ASSERT_EQ(differences.size(), 1u) << Name(dtype) << " " << count;
      EXPECT_EQ(differences[0].first, count / 2) << Name(dtype) << " " << count;
      EXPECT_EQ(differences[0].count, different) << Name(dtype) << " " << count;
    }
  }
}

TEST(CompareSink, ComparesBitsNotNumbers) {
  const float nan1 = std::bit_cast<float>(0x7FC00000u);
  const float nan2 = std::bit_cast<float>(0x7FC00001u);
  const StoredTensor stored = PackedOf(Dtype::kF32, {3}, BytesOf<float>({nan1, 0.0F, nan1}));
  EXPECT_TRUE(Compare(stored, BytesOf<float>({nan1, 0.0F, nan1}), 12).empty())
      << "a NaN equals itself";
  const auto differences = Compare(stored, BytesOf<float>({nan2, -0.0F, nan1}), 12);
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0].first, 0);
  EXPECT_EQ(differences[0].count, 2);
  EXPECT_EQ(differences[0].expected, "nan (0x7fc00001)");
  EXPECT_EQ(differences[0].found, "nan (0x7fc00000)");
}

TEST(CompareSink, ReadsStridedTensors) {
  // A column-major [3, 4] matrix inside a storage with a gap, from byte 8 on.
  std::vector<uint32_t> storage(2 + 4 * 5, 0xFFFFFFFF);
  std::vector<uint32_t> logical;
  for (uint32_t r = 0; r < 3; ++r)
    for (uint32_t c = 0; c < 4; ++c) {
      storage[2 + c * 5 + r] = 100 * r + c;
      logical.push_back(100 * r + c);
    }
  StoredTensor stored = PackedOf(Dtype::kU32, {3, 4}, BytesOf(storage));
  stored.offset = 8;
  stored.strides = {1, 5};
  for (const size_t chunk : {4, 12, 16, 20, 48}) {
    EXPECT_TRUE(Compare(stored, BytesOf(logical), chunk).empty()) << chunk;
  }
  logical[6] = 7;
  const auto differences = Compare(stored, BytesOf(logical), 20);
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0].first, 6);
  EXPECT_EQ(differences[0].found, "102 (0x00000066)");
}

TEST(CompareSink, ReadsThreeStridedDimensionsInAnyChunks) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const Shape shape = {1 + int64_t(random() % 4), 1 + int64_t(random() % 5),
                         1 + int64_t(random() % 6)};
    const Shape strides = {1, shape[0], shape[0] * shape[1]};  // all dimensions reversed
    const int64_t count = *ElementCount(shape);
    StoredTensor stored = PackedOf(Dtype::kU32, shape, testing_util::Numbers(count));
    stored.strides = strides;
    std::vector<uint32_t> logical;
    testing_util::ForEachIndex(shape, [&](const Shape& index) {
      logical.push_back(static_cast<uint32_t>(testing_util::LinearIndex(index, strides)));
    });
    const size_t chunk = 4 * (1 + random() % 30);
    ASSERT_TRUE(Compare(stored, BytesOf(logical), chunk).empty()) << ShapeText(shape);
    const size_t wrong = random() % logical.size();
    logical[wrong] ^= 1;
    const auto differences = Compare(stored, BytesOf(logical), chunk);
    ASSERT_EQ(differences.size(), 1u);
    ASSERT_EQ(differences[0].first, static_cast<int64_t>(wrong));
  }
}

TEST(CompareSink, ReadsBigEndianTensors) {
  std::vector<std::byte> bytes = BytesOf<float>({1.5F, -2, 4096});
  SwapBytes(bytes, 4);
  StoredTensor stored = PackedOf(Dtype::kF32, {3}, bytes);
  stored.big_endian = true;
  EXPECT_TRUE(Compare(stored, BytesOf<float>({1.5F, -2, 4096}), 8).empty());
  const auto differences = Compare(stored, BytesOf<float>({1.5F, -2, 4097}), 12);
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0].found, "4096 (0x45800000)");
}

TEST(CompareSink, ReadsScalars) {
  StoredTensor stored = PackedOf(Dtype::kI32, {}, BytesOf<int32_t>({-3}));
  EXPECT_TRUE(Compare(stored, BytesOf<int32_t>({-3}), 4).empty());
  const auto differences = Compare(stored, BytesOf<int32_t>({5}), 4);
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0].found, "-3 (0xfffffffd)");
}

// A matrix of one column that is a view: as many rows as elements, read in a few reads.
TEST(CompareSink, ReadsALongStridedColumnInFewReads) {
  const int64_t rows = 50'000;
  const auto storage = std::make_shared<CountingStorage>(testing_util::Numbers(rows * 2));
  StoredTensor stored = Packed("t", Dtype::kU32, {rows, 1}, storage);
  stored.strides = {2, 1};
  std::vector<uint32_t> expected;
  for (uint32_t r = 0; r < rows; ++r) expected.push_back(2 * r);
  EXPECT_TRUE(Compare(stored, BytesOf(expected), expected.size() * 4).empty());
  EXPECT_LE(storage->reads(), 10u);
}

TEST(CompareSink, NamesTheTensorOfAFailedRead) {
  const auto storage = std::make_shared<CountingStorage>(std::vector<std::byte>(24));
  storage->FailAt(9);
  StoredTensor stored = Packed("t", Dtype::kF32, {2, 3}, storage);
  for (const Shape& strides : {Shape{3, 1}, Shape{1, 2}}) {
    stored.strides = strides;
    const BoundLayout actual{LayoutOf({WholeOf("t", 0, stored.shape)}), {stored}};
    const std::vector<OutputTensor> outputs = {{"t", Dtype::kF32, {2, 3}}};
    CompareSink sink(actual, outputs);
    const std::optional<Error> error = ExpectError(sink.Take(0, 0, std::vector<std::byte>(24)),
                                                   Errc::kIo, "the disk is broken here");
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->tensor(), "t");
  }
}

TEST(CompareSink, OrdersByTensor) {
  const StoredTensor a = PackedOf(Dtype::kU32, {1}, testing_util::Numbers(1, 1));
  const StoredTensor b = PackedOf(Dtype::kU32, {1}, testing_util::Numbers(1, 2));
  const BoundLayout actual{LayoutOf({WholeOf("a", 0, {1}), WholeOf("b", 0, {1})}), {a, b}};
  const std::vector<OutputTensor> outputs = {{"a", Dtype::kU32, {1}}, {"b", Dtype::kU32, {1}}};
  CompareSink sink(actual, outputs);
  ASSERT_TRUE(sink.Take(1, 0, testing_util::Numbers(1, 9)).ok());
  ASSERT_TRUE(sink.Take(0, 0, testing_util::Numbers(1, 9)).ok());
  const auto differences = sink.differences();
  ASSERT_EQ(differences.size(), 2u);
  EXPECT_EQ(differences[0].tensor, 0u);
  EXPECT_EQ(differences[1].tensor, 1u);
}

// --- where an element belongs

TEST(PlaceOf, LeadsThroughAPieceToTheParameter) {
  const Shape shape = {8, 6};
  TensorLayout tensor{"t", 0, {5, 6}, std::nullopt, {}, {}};
  AddRows(tensor, 3, shape, 6, 2, 0);
  AddRows(tensor, 3, shape, 0, 2, 2);
  AddZeros(tensor, 0, 4, 1);
  ElementPlace place = PlaceOf(tensor, 2 * 6 + 5);
  EXPECT_EQ(place.param, 3u);
  EXPECT_EQ(place.logical, Shape({0, 5}));
  EXPECT_EQ(place.stored, Shape({2, 5}));
  place = PlaceOf(tensor, 4 * 6);
  EXPECT_EQ(place.param, std::nullopt);
  EXPECT_EQ(place.stored, Shape({4, 0}));
}

TEST(PlaceOf, FollowsATransposedPiece) {
  TensorLayout tensor = RowsOf("t", 0, {8, 6}, 2, 4);
  TransposeStored(tensor);  // [6, 4]
  const ElementPlace place = PlaceOf(tensor, 5 * 4 + 1);
  EXPECT_EQ(place.logical, Shape({3, 5}));
}

TEST(PlaceOf, HandlesScalars) {
  const ElementPlace place = PlaceOf(WholeOf("s", 2, {}), 0);
  EXPECT_EQ(place.param, 2u);
  EXPECT_TRUE(place.logical.empty());
}

}  // namespace
}  // namespace nxdkit
