// Slices of tensors that have fewer dimensions for a reader than in the layout.
#include "formats/ops/read/seen_shape.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/formats/ops/read/reading.h"

namespace nxdkit::ops {
namespace {

TEST(SeenShape, JoinsDimensionsInOrder) {
  EXPECT_TRUE(JoinsDimensions({6, 4}, {6, 4}));
  EXPECT_TRUE(JoinsDimensions({2, 3, 4}, {6, 4}));
  EXPECT_TRUE(JoinsDimensions({2, 3, 4}, {24}));
  EXPECT_TRUE(JoinsDimensions({1, 6, 2, 2}, {6, 4}));
  EXPECT_FALSE(JoinsDimensions({3, 8}, {6, 4}));
  EXPECT_FALSE(JoinsDimensions({6, 4}, {2, 3, 4}));
  EXPECT_FALSE(JoinsDimensions({2, 3}, {6, 4}));
}

// Elements are numbered; the parts pick those that the slice picks.
TEST(SeenShape, PartsAreTheElementsOfTheSlice) {
  std::mt19937 random(3);
  const std::pair<Shape, Shape> shapes[] = {{{6, 4}, {6, 4}},
                                            {{2, 3, 4}, {6, 4}},
                                            {{2, 3, 4}, {24}},
                                            {{3, 2, 4}, {6, 4}},
                                            {{1, 6, 2, 2}, {6, 4}}};
  for (const auto& [laid_out, seen] : shapes)
    for (int round = 0; round < 50; ++round) {
      const Slice slice = testing_util::RandomSlice(seen, random);
      std::vector<std::byte> numbers(24);
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::byte>(i);
      const std::vector<std::byte> expected =
          testing_util::Picked(numbers, {"", Dtype::kU8, seen}, slice);
      std::vector<std::byte> found(expected.size(), std::byte{0xee});
      for (const LaidOutPart& part :
           LaidOutParts(laid_out, seen, slice, RowMajorStrides(slice.extent()))) {
        ASSERT_TRUE(CheckSlice(part.slice, laid_out).ok());
        const std::vector<std::byte> picked =
            testing_util::Picked(numbers, {"", Dtype::kU8, laid_out}, part.slice);
        const Shape extent = part.slice.extent();
        for (size_t i = 0; i < picked.size(); ++i) {
          auto rest = static_cast<int64_t>(i);
          int64_t at = part.at;
          for (size_t d = extent.size(); d > 0; rest /= extent[--d])
            at += rest % extent[d - 1] * part.strides[d - 1];
          found[static_cast<size_t>(at)] = picked[i];
        }
      }
      ASSERT_EQ(found, expected) << ShapeText(seen) << " round " << round;
    }
}

}  // namespace
}  // namespace nxdkit::ops
