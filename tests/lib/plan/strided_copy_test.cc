// RunStridedCopy compared with a loop over single elements, for every element size, order of
// dimensions, byte order and conversion, on small boxes.
#include "lib/plan/strided_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/lib/plan/plan_fixture.h"

namespace nxdkit {
namespace {

using testing_util::ForEachIndex;
using testing_util::LinearIndex;

// Source elements spread over `gap` times the space; output packed in the order `axes`.
struct Case {
  Shape extent;
  std::vector<size_t> axes;  // axes[d]: place of dimension d in the output
  int64_t gap = 1;
  Dtype from = Dtype::kU8;
  Dtype to = Dtype::kU8;
  bool swap = false;

  Shape SourceStrides() const {
    Shape strides = RowMajorStrides(extent);
    for (int64_t& stride : strides) stride *= gap;
    return strides;
  }
  Shape OutputStrides() const {
    Shape permuted(extent.size());
    for (size_t d = 0; d < extent.size(); ++d) permuted[axes[d]] = extent[d];
    const Shape packed = RowMajorStrides(permuted);
    Shape strides(extent.size());
    for (size_t d = 0; d < extent.size(); ++d) strides[d] = packed[axes[d]];
    return strides;
  }
};

// Floats must be numbers for the conversion's own rules to stay out of this test (see
// dtype_convert_test.cc for those): small integers are exact in every float dtype.
std::vector<std::byte> SourceBytes(const Case& c, size_t elements) {
  const size_t size = static_cast<size_t>(ElementBytes(c.from));
  std::vector<std::byte> bytes(elements * size);
  if (c.from == c.to) {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + i / 251);
    return bytes;
  }
  for (size_t i = 0; i < elements; ++i) {
    const double value = static_cast<double>(i % 255) - 100;
    std::byte* const at = bytes.data() + i * size;
    ConvertElements(Dtype::kF64, reinterpret_cast<const std::byte*>(&value), c.from, at, 1);
    if (c.swap) SwapBytes(std::span(at, size), Info(c.from).swap_bytes);
  }
  return bytes;
}

std::vector<std::byte> Naive(const Case& c, const std::vector<std::byte>& source,
                             size_t out_bytes) {
  const int64_t from = ElementBytes(c.from);
  const int64_t to = ElementBytes(c.to);
  std::vector<std::byte> out(out_bytes, std::byte{0xA5});
  ForEachIndex(c.extent, [&](const Shape& index) {
    std::byte element[16];
    std::memcpy(element, source.data() + LinearIndex(index, c.SourceStrides()) * from, from);
    if (c.swap) SwapBytes(std::span(element, static_cast<size_t>(from)), Info(c.from).swap_bytes);
    std::byte* const at = out.data() + LinearIndex(index, c.OutputStrides()) * to;
    if (c.from == c.to)
      std::memcpy(at, element, to);
    else
      ConvertElements(c.from, element, c.to, at, 1);
  });
  return out;
}

void Check(const Case& c) {
  const int64_t count = Box{c.extent, c.extent}.Volume();
  const std::vector<std::byte> source = SourceBytes(c, static_cast<size_t>(count * c.gap + 1));
  std::vector<std::byte> out(static_cast<size_t>((count + 1) * ElementBytes(c.to)),
                             std::byte{0xA5});
  const StridedCopy copy{c.extent, c.SourceStrides(), c.OutputStrides(), c.from, c.to, c.swap};
  RunStridedCopy(copy, source.data(), out.data());
  ASSERT_EQ(out, Naive(c, source, out.size()))
      << ShapeText(c.extent) << " gap " << c.gap << " " << Name(c.from) << " to " << Name(c.to)
      << " swap " << c.swap;
}

void CheckAllOrders(Case c) {
  c.axes.resize(c.extent.size());
  std::iota(c.axes.begin(), c.axes.end(), size_t{0});
  do {
    Check(c);
  } while (std::ranges::next_permutation(c.axes).found);
}

const std::vector<Shape> kShapes = {{},           {1},      {7},       {0, 3},    {3, 0},
                                    {3, 5},       {1, 9},   {9, 1},    {2, 3, 4}, {4, 1, 5},
                                    {2, 2, 2, 3}, {33, 35}, {5, 40, 2}};

TEST(StridedCopy, EqualsTheNaiveLoopForEveryElementSize) {
  for (const Dtype dtype : {Dtype::kU8, Dtype::kBF16, Dtype::kF32, Dtype::kI64, Dtype::kC128})
    for (const Shape& extent : kShapes)
      for (const int64_t gap : {1, 2, 3}) CheckAllOrders({extent, {}, gap, dtype, dtype, false});
}

TEST(StridedCopy, SwapsBigEndianSources) {
  for (const Dtype dtype : {Dtype::kI16, Dtype::kF32, Dtype::kC64, Dtype::kF64, Dtype::kC128})
    for (const Shape& extent : kShapes)
      for (const int64_t gap : {1, 2}) CheckAllOrders({extent, {}, gap, dtype, dtype, true});
}

TEST(StridedCopy, ConvertsOnTheWay) {
  const Dtype floats[] = {Dtype::kF16, Dtype::kBF16, Dtype::kF32, Dtype::kF64};
  for (const Dtype from : floats)
    for (const Dtype to : floats)
      for (const Shape& extent : kShapes)
        for (const bool swap : {false, true}) CheckAllOrders({extent, {}, 2, from, to, swap});
}

// Longer runs than the batch of a conversion, with a rest.
TEST(StridedCopy, ConvertsLongRunsInBatches) {
  for (const int64_t length : {511, 512, 513, 1500})
    for (const int64_t gap : {1, 3})
      for (const bool swap : {false, true})
        CheckAllOrders({{3, length}, {}, gap, Dtype::kF32, Dtype::kBF16, swap});
}

TEST(StridedCopy, RandomBoxes) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    Case c;
    for (size_t d = 1 + random() % 4; d > 0; --d) c.extent.push_back(1 + random() % 12);
    c.gap = 1 + static_cast<int64_t>(random() % 3);
    c.from = c.to = Dtype::kBF16;
    CheckAllOrders(c);
  }
}

// A constant spread over a box: source strides of 0.
TEST(StridedCopy, RepeatsOneElement) {
  const uint32_t value = 0x01020304;
  std::vector<uint32_t> out(12, 9);
  RunStridedCopy({{2, 3}, {0, 0}, {4, 1}, Dtype::kU32, Dtype::kU32, false},
                 reinterpret_cast<const std::byte*>(&value),
                 reinterpret_cast<std::byte*>(out.data()));
  EXPECT_EQ(out,
            (std::vector<uint32_t>{value, value, value, 9, value, value, value, 9, 9, 9, 9, 9}));
}

TEST(StridedCopy, KnowsAPlainRun) {
  const auto plain = [](Shape extent, Shape source, Shape output, Dtype to, bool swap) {
    return IsPlainRun(
        {std::move(extent), std::move(source), std::move(output), Dtype::kF32, to, swap});
  };
  EXPECT_TRUE(plain({4, 6}, {6, 1}, {6, 1}, Dtype::kF32, false));
  EXPECT_TRUE(plain({1, 6}, {99, 1}, {7, 1}, Dtype::kF32, false)) << "one row";
  EXPECT_TRUE(plain({}, {}, {}, Dtype::kF32, false)) << "a scalar";
  EXPECT_TRUE(plain({2, 3, 4}, {12, 4, 1}, {12, 4, 1}, Dtype::kF32, false));
  EXPECT_FALSE(plain({4, 6}, {8, 1}, {6, 1}, Dtype::kF32, false)) << "a gap in the source";
  EXPECT_FALSE(plain({4, 6}, {6, 1}, {8, 1}, Dtype::kF32, false)) << "a gap in the output";
  EXPECT_FALSE(plain({4, 6}, {1, 4}, {6, 1}, Dtype::kF32, false)) << "transposed";
  EXPECT_FALSE(plain({4, 6}, {6, 1}, {6, 1}, Dtype::kBF16, false)) << "converted";
  EXPECT_FALSE(plain({4, 6}, {6, 1}, {6, 1}, Dtype::kF32, true)) << "swapped";
}

}  // namespace
}  // namespace nxdkit
