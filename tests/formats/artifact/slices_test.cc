#include "formats/artifact/slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace nxdkit::artifact {
namespace {

using ::testing::ElementsAre;

StoredTensor RowMajor(const Shape& shape) {
  StoredTensor stored;
  stored.name = "w";
  stored.shape = shape;
  stored.strides = RowMajorStrides(shape);
  return stored;
}

int64_t Draw(std::mt19937& random, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

// A copy of a random box, whose dimensions are in any order in the output, is found again.
TEST(SourceBoxOf, IsTheBoxThatACopyReads) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    Shape shape(static_cast<size_t>(Draw(random, 1, 4)));
    for (int64_t& extent : shape) extent = Draw(random, 1, 6);
    const StoredTensor stored = RowMajor(shape);
    Box box{shape, shape};
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::shuffle(order, random);
    CopyOp op;
    for (size_t d = 0; d < shape.size(); ++d) {
      box.lo[d] = Draw(random, 0, shape[d] - 1);
      box.extent[d] = Draw(random, 1, shape[d] - box.lo[d]);
      op.start += box.lo[d] * stored.strides[d];
    }
    for (const size_t d : order) {
      op.box.lo.push_back(0);
      op.box.extent.push_back(box.extent[d]);
      op.strides.push_back(stored.strides[d]);
    }
    ASSERT_EQ(SourceBoxOf(op, stored), box) << BoxText(box);
  }
}

// A tensor that was stored transposed, and one whose rows overlap: the whole is the safe answer.
TEST(SourceBoxOf, FollowsStrides) {
  StoredTensor stored = RowMajor({4, 6});
  stored.strides = {1, 4};
  const CopyOp op{0, 0, {{0, 0}, {2, 3}}, 1 + 2 * 4, {1, 4}};
  EXPECT_EQ(SourceBoxOf(op, stored), (Box{{1, 2}, {2, 3}}));
  stored.strides = {0, 1};
  EXPECT_EQ(SourceBoxOf({0, 0, {{0, 0}, {4, 6}}, 0, {0, 1}}, stored), WholeBox({4, 6}));
}

TEST(HeadsIn, CountsAlongTheHeads) {
  const LogicalTensor columns{"o_proj", {32, 64}, 16, 1};
  EXPECT_EQ(HeadsIn(columns, {{0, 16}, {32, 32}}), std::pair(int64_t{1}, int64_t{2}));
  EXPECT_EQ(HeadsIn({"norm", {32}, 0, 0}, {{0}, {32}}), std::nullopt);
}

TEST(FileLabels, AreRanksWhereTheseDiffer) {
  EXPECT_THAT(FileLabels({{"a/tp0.pt", 0, 0}, {"a/tp1.pt", 1, 0}}), ElementsAre("tp 0", "tp 1"));
  EXPECT_THAT(FileLabels({{"a/x.pt", 0, 0}, {"a/y.pt", 0, 1}}),
              ElementsAre("tp 0, pp 0", "tp 0, pp 1"));
  EXPECT_THAT(FileLabels({{"m/a.bin"}, {"m/b.bin"}}), ElementsAre("a.bin", "b.bin"));
  EXPECT_THAT(FileLabels({{"m/a.bin", 0}, {"n/a.bin", 0}}), ElementsAre("m/a.bin", "n/a.bin"));
}

}  // namespace
}  // namespace nxdkit::artifact
