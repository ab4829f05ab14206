// Intersections of boxes: the tree compared with checking all of them.
#include "lib/plan/box_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace nxdkit {
namespace {

using ::testing::IsEmpty;

BoxTree TreeOf(const std::vector<Box>& boxes) {
  std::vector<const Box*> all;
  for (const Box& box : boxes) all.push_back(&box);
  return BoxTree(std::move(all));
}

Box AnyBox(std::mt19937& random, size_t rank) {
  Box box;
  for (size_t d = 0; d < rank; ++d) {
    box.lo.push_back(std::uniform_int_distribution<int64_t>(0, 30)(random));
    box.extent.push_back(std::uniform_int_distribution<int64_t>(0, 9)(random));
  }
  return box;
}

TEST(BoxTree, FindsWhatMeetsAndNothingElse) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const auto rank = static_cast<size_t>(round % 5);
    std::vector<Box> boxes;
    for (int i = 0; i < round; ++i) boxes.push_back(AnyBox(random, rank));
    const BoxTree tree = TreeOf(boxes);
    for (int i = 0; i < 20; ++i) {
      const Box box = AnyBox(random, rank);
      std::vector<uint32_t> expected;
      for (uint32_t b = 0; b < boxes.size(); ++b)
        if (Meet(boxes[b], box)) expected.push_back(b);
      ASSERT_EQ(tree.Meeting(box), expected) << "round " << round << ", " << BoxText(box);
    }
  }
}

TEST(BoxTree, IsEmptyOfNone) { EXPECT_THAT(BoxTree({}).Meeting({{1}, {2}}), IsEmpty()); }

// Comparing each with each would be five thousand million pairs.
TEST(BoxTree, SearchesAHundredThousandSlabsOfBothKinds) {
  constexpr int64_t kSlabs = 50'000;
  std::vector<Box> boxes;
  for (int64_t i = 0; i < kSlabs; ++i) {
    boxes.push_back({{i, 0}, {1, kSlabs}});
    boxes.push_back({{kSlabs, i}, {kSlabs, 1}});
  }
  EXPECT_EQ(*FindOverlap(boxes), std::nullopt);
  boxes.push_back({{kSlabs + 3, 7}, {1, 2}});
  EXPECT_EQ(*FindOverlap(boxes), (std::pair<size_t, size_t>(2 * kSlabs, 15)));
}

}  // namespace
}  // namespace nxdkit
