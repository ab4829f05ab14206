// The worked examples of the reference, and the invariants for any lengths.
#include "trainer/algo/balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace nxdkit::trainer {
namespace {

using Lengths = std::vector<int64_t>;
const Lengths kLengths = {10, 200, 30, 40, 150, 60, 70, 80};

TEST(Balance, EqualParts) {
  const auto two = PartitionEqual(kLengths, 2);
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(*two, (std::vector<Part>{{2, 4, 5, 7}, {0, 1, 3, 6}}));
  const auto four = PartitionEqual(kLengths, 4);
  ASSERT_TRUE(four.ok());
  EXPECT_EQ(*four, (std::vector<Part>{{0, 1}, {2, 4}, {5, 6}, {3, 7}}));
}

TEST(Balance, UnequalParts) {
  const auto three = PartitionAny(kLengths, 3);
  ASSERT_TRUE(three.ok());
  EXPECT_EQ(*three, (std::vector<Part>{{2, 3, 6, 7}, {4, 5}, {0, 1}}));
}

TEST(Balance, OrderAndMetrics) {
  const auto balance = BalanceRows(kLengths, 2);
  ASSERT_TRUE(balance.ok());
  EXPECT_EQ(balance->order, (Lengths{2, 4, 5, 7, 0, 1, 3, 6}));
  EXPECT_EQ(balance->min, 280);
  EXPECT_EQ(balance->max, 360);
  EXPECT_EQ(balance->minmax_diff(), 80);
  EXPECT_EQ(balance->balanced_min, 320);
  EXPECT_EQ(balance->balanced_max, 320);
  EXPECT_EQ(balance->mean, 320);
}

TEST(Balance, EveryRowOnceAndNoPartEmpty) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Lengths lengths(1 + random() % 40);
    for (int64_t& length : lengths) length = random() % (round % 3 == 0 ? 3 : 1000);
    const int64_t parts = 1 + random() % static_cast<int64_t>(lengths.size());
    const auto any = PartitionAny(lengths, parts);
    ASSERT_TRUE(any.ok());
    ASSERT_EQ(static_cast<int64_t>(any->size()), parts);
    Lengths seen;
    for (const Part& part : *any) {
      EXPECT_FALSE(part.empty());
      EXPECT_TRUE(std::ranges::is_sorted(part));
      seen.insert(seen.end(), part.begin(), part.end());
    }
    std::ranges::sort(seen);
    Lengths all(lengths.size());
    std::iota(all.begin(), all.end(), int64_t{0});
    EXPECT_EQ(seen, all);
    lengths.resize(lengths.size() / static_cast<size_t>(parts) * static_cast<size_t>(parts));
    const auto equal = PartitionEqual(lengths, parts);
    ASSERT_TRUE(equal.ok());
    for (const Part& part : *equal) EXPECT_EQ(part.size(), (*equal)[0].size());
  }
}

TEST(Balance, WhatCannotBeDivided) {
  const auto equal = PartitionEqual(kLengths, 3);
  ASSERT_FALSE(equal.ok());
  EXPECT_EQ(equal.error().code(), Errc::kUsage);
  EXPECT_EQ(equal.error().message(), "8 rows cannot be divided into 3 equal parts");
  const auto any = PartitionAny(kLengths, 9);
  ASSERT_FALSE(any.ok());
  EXPECT_EQ(any.error().message(), "8 rows cannot be divided into 9 parts of at least one row");
  EXPECT_FALSE(PartitionAny(kLengths, 0).ok());
  EXPECT_FALSE(BalanceRows({}, 2).ok());
}

TEST(MicroBatches, CountIsTokensOverTheTargetAtMostRows) {
  EXPECT_EQ(MicroBatchCount(kLengths, 640), 1);
  EXPECT_EQ(MicroBatchCount(kLengths, 639), 2);
  EXPECT_EQ(MicroBatchCount(kLengths, 100), 7);
  EXPECT_EQ(MicroBatchCount(kLengths, 1), 8);
}

TEST(MicroBatches, CostliestFirst) {
  const auto packed = PackMicroBatches(kLengths, 3);
  ASSERT_TRUE(packed.ok());
  // Sums of squares 40100, 26100, 13800.
  EXPECT_EQ(*packed, (std::vector<Part>{{0, 1}, {4, 5}, {2, 3, 6, 7}}));
}

// sorted(..., key=lambda rows: (cost, min(rows)), reverse=True) in the reference.
TEST(MicroBatches, OfEqualCostTheLaterRowsComeFirst) {
  const std::vector<int64_t> lengths = {5, 5, 5, 5};
  const auto packed = PackMicroBatches(lengths, 4);
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(*packed, (std::vector<Part>{{3}, {2}, {1}, {0}}));
}

}  // namespace
}  // namespace nxdkit::trainer
