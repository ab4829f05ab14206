#include "trainer/algo/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace nxdkit::trainer {
namespace {

using Steps = std::vector<int64_t>;

struct RetentionCase {
  std::optional<int64_t> best;
  int64_t limit;
  Steps left;
};

TEST(Retention, WorkedExamples) {
  const Steps existing = {25, 5, 10, 15, 20};
  const RetentionCase cases[] = {
      {10, 3, {10, 25}},
      {25, 3, {20, 25}},
      {30, 3, {20, 25}},
      {std::nullopt, 3, {20, 25}},
      {10, 2, {10}},
      {10, 1, {10}},
      {30, 1, {}},
      {10, 0, {5, 10, 15, 20, 25}},
      {10, -1, {5, 10, 15, 20, 25}},
  };
  for (const RetentionCase& one : cases) {
    const Steps gone = ObsoleteSteps(existing, 30, one.best, one.limit);
    Steps left;
    for (int64_t step = 5; step <= 25; step += 5)
      if (std::ranges::find(gone, step) == gone.end()) left.push_back(step);
    EXPECT_EQ(left, one.left) << "best " << one.best.value_or(-1) << " limit " << one.limit;
  }
}

TEST(Retention, StepsFromTheCurrentOnStay) {
  EXPECT_EQ(ObsoleteSteps(Steps{5, 30, 35}, 30, std::nullopt, 1), (Steps{5}));
}

TEST(Filter, KeepsWholeGroupsStrictlyBetween) {
  const std::vector<uint64_t> groups = {1, 2, 1, 3, 2, 3, 4, 4};
  const std::vector<double> scores = {1, 1, 0, 0, 1, 0, .02, 0};
  const auto kept = FilterGroups(groups, scores, 0.01, 0.99);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(*kept, (std::vector<size_t>{0, 2}));  // group 4 has 0.01 exactly
}

// numpy.mean([0.1] * 8) is 0.1, where a plain sum gives 0.09999999999999999; for 300 and for 13
// values by numpy 2.3: (numpy.arange(n) * 0.1).mean().
TEST(Filter, MeansAreThoseOfNumpy) {
  const auto kept = [](const std::vector<double>& scores, double low, double high) {
    return FilterGroups(std::vector<uint64_t>(scores.size(), 7), scores, low, high)->size();
  };
  const std::vector<double> tenths(8, 0.1);
  EXPECT_EQ(kept(tenths, 0, 0.1), 0u);
  EXPECT_EQ(kept(tenths, 0, std::nextafter(0.1, 1)), 8u);
  const auto ramp = [](int n) {
    std::vector<double> values;
    for (int i = 0; i < n; ++i) values.push_back(i * 0.1);
    return values;
  };
  for (const auto& [n, mean] : {std::pair(13, 0.6000000000000001), std::pair(300, 14.95)}) {
    EXPECT_EQ(kept(ramp(n), mean, 1e9), 0u) << n;
    EXPECT_EQ(kept(ramp(n), std::nextafter(mean, 0), std::nextafter(mean, 1e9)), size_t(n)) << n;
  }
}

TEST(Filter, NamesTheRowThatIsNotFinite) {
  const std::vector<uint64_t> groups = {1, 1};
  const std::vector<double> scores = {1, std::numeric_limits<double>::infinity()};
  const auto kept = FilterGroups(groups, scores, 0, 1);
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().code(), Errc::kCorrupt);
  EXPECT_EQ(kept.error().member(), "row 1");
  EXPECT_EQ(kept.error().message(), "the score is inf, expected a finite number");
  EXPECT_EQ(FilterGroups(groups, {}, 0, 1).error().code(), Errc::kInternal);
}

}  // namespace
}  // namespace nxdkit::trainer
