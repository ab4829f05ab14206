// A rank's part of a tensor that is cut again and again, compared with a list of all its indices;
// and the time that hostile numbers take.
#include "formats/dtensor/sharding.h"

#include <gtest/gtest.h>

#include <ctime>
#include <numeric>
#include <random>

namespace nxdkit::dtensor {
namespace {

using Indices = std::vector<int64_t>;

// As torch does it: chunks of the remaining indices, one of each chunk's chunks.
Indices CutAll(const Indices& all, const Placement& placement, int64_t ranks, int64_t index) {
  Indices out;
  const Run whole = {0, std::ssize(all)};
  for (int64_t i = 0; i < placement.split_factor; ++i) {
    const Run part = PartOf(PartOf(whole, placement.split_factor, i), ranks, index);
    for (int64_t k = 0; k < part.count; ++k)
      out.push_back(all[static_cast<size_t>(part.first + k)]);
  }
  return out;
}

Indices IndicesOf(const LocalShard& shard) {
  Indices out;
  for (const Part& part : shard.parts)
    for (int64_t k = 0; k < part.box.extent[0]; ++k) out.push_back(part.box.lo[0] + k);
  return out;
}

TEST(ShardAt, IsWhatTheCutsLeaveOfTheIndices) {
  std::mt19937 random(3);
  const auto any = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    Sharding sharding;
    sharding.shape = {any(0, 70)};
    Shape place;
    Indices expected(static_cast<size_t>(sharding.shape[0]));
    std::iota(expected.begin(), expected.end(), 0);
    for (int64_t d = any(0, 4); d > 0; --d) {
      sharding.mesh.push_back(any(1, 4));
      sharding.placements.push_back({Placement::Kind::kStridedShard, 0, any(1, 9)});
      place.push_back(any(0, sharding.mesh.back() - 1));
      expected = CutAll(expected, sharding.placements.back(), sharding.mesh.back(), place.back());
    }
    const Result<LocalShard> shard = ShardAt(sharding, place);
    ASSERT_TRUE(shard.ok()) << shard.error().ToString();
    ASSERT_EQ(IndicesOf(*shard), expected) << "round " << round;
    EXPECT_EQ(shard->shape, (Shape{std::ssize(expected)}));
  }
}

// Eight cuts into 1024 pieces, each of which is cut: one step for each piece and run, not for each
// pair of them. The time is processor time.
TEST(ShardAt, OfManyStridedCutsTakesNoTime) {
  const Sharding sharding = {{int64_t{1} << 20},
                             Shape(8, 2),
                             std::vector<Placement>(8, {Placement::Kind::kStridedShard, 0, 1024})};
  const std::clock_t before = std::clock();
  for (int i = 0; i < 4000; ++i) {
    const Result<LocalShard> shard = ShardAt(sharding, Shape(8, 1));
    ASSERT_TRUE(shard.ok()) << shard.error().ToString();
    ASSERT_EQ(shard->parts.size(), 1024u);
  }
  EXPECT_LT(std::clock() - before, 10 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace nxdkit::dtensor
