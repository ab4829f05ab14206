// The worked examples of the reference, and the errors.
#include "trainer/algo/advantage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace nxdkit::trainer {
namespace {

using Floats = std::vector<float>;
using enum AdvantageEstimator;

// A batch that owns its arrays.
struct Lab {
  std::vector<uint64_t> groups;
  std::vector<Floats> rewards, values, advantages, returns;
  std::vector<double> baselines;

  void Add(uint64_t group, Floats row, Floats row_values = {}, double baseline = 0) {
    groups.push_back(group);
    advantages.emplace_back(row.size(), 99.0f);
    returns.emplace_back(row.size(), 99.0f);
    rewards.push_back(std::move(row));
    values.push_back(std::move(row_values));
    baselines.push_back(baseline);
  }
  Status Run(const AdvantageOptions& options) {
    std::vector<AdvantageRow> rows;
    for (size_t i = 0; i < groups.size(); ++i)
      rows.push_back({groups[i], rewards[i], values[i], baselines[i], advantages[i], returns[i]});
    return ComputeAdvantages(options, rows);
  }
};

void ExpectRow(const Floats& found, const std::vector<double>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t t = 0; t < found.size(); ++t)
    EXPECT_NEAR(found[t], expected[t], 1.1e-6) << what << " token " << t;
}

// Scores on the last of a few tokens, rows of lengths 1, 2, 3, ...
Lab ScoreLab(const std::vector<double>& scores) {
  Lab lab;
  for (size_t i = 0; i < scores.size(); ++i) {
    Floats row(i + 1);
    row.back() = static_cast<float>(scores[i]);
    lab.Add(17, row);
  }
  return lab;
}

struct GroupCase {
  std::vector<double> scores, grpo, rloo, passk;
};
const GroupCase kGroups[] = {
    {{1, .1, 0, .9},
     {.956363, -.765091, -.956363, .765091},
     {.666667, -.533333, -.666667, .533333},
     {.191273, 0, 0, 0}},
    {{1, 1, 0, 0},
     {.866024, .866024, -.866024, -.866024},
     {.666667, .666667, -.666667, -.666667},
     {0, 0, 0, 0}},
    {{1, 0, 0, 0},
     {1.499997, -.499999, -.499999, -.499999},
     {1, -.333333, -.333333, -.333333},
     {1.999996, 0, 0, 0}},
    {{.1, .1, .1, 1},
     {-.499999, -.499999, -.499999, 1.499997},
     {-.3, -.3, -.3, .9},
     {0, 0, 0, 1.999996}},
};

TEST(Advantage, GroupsOfFour) {
  for (const GroupCase& group : kGroups) {
    const std::pair<AdvantageEstimator, const std::vector<double>*> cases[] = {
        {kGrpo, &group.grpo}, {kRloo, &group.rloo}, {kGrpoPassk, &group.passk}};
    for (const auto& [estimator, expected] : cases) {
      Lab lab = ScoreLab(group.scores);
      ASSERT_TRUE(lab.Run({.estimator = estimator, .samples = 4}).ok());
      for (size_t i = 0; i < 4; ++i) {
        const std::vector<double> row(i + 1, (*expected)[i]);
        ExpectRow(lab.advantages[i], row, "advantages");
        EXPECT_EQ(lab.returns[i], lab.advantages[i]);
      }
    }
  }
}

TEST(Advantage, EqualScoresGiveExactlyZero) {
  for (const AdvantageEstimator estimator : {kGrpo, kGrpoPassk, kRloo})
    for (const size_t samples : {2u, 3u, 8u, 16u}) {
      Lab lab = ScoreLab(std::vector<double>(samples, 0.9));
      ASSERT_TRUE(lab.Run({.estimator = estimator, .samples = static_cast<int64_t>(samples)}).ok());
      for (const Floats& row : lab.advantages)
        for (const float advantage : row) EXPECT_EQ(advantage, 0.0f);
    }
}

TEST(Advantage, GroupsMayBeMixed) {
  Lab lab;
  lab.Add(5, {1});
  lab.Add(9, {3});
  lab.Add(5, {0});
  lab.Add(9, {5});
  ASSERT_TRUE(lab.Run({.estimator = kRloo, .samples = 2}).ok());
  EXPECT_EQ(lab.advantages, (std::vector<Floats>{{1}, {-2}, {-1}, {2}}));
}

TEST(Advantage, ReinforcePlusPlus) {
  Lab lab;
  lab.Add(1, {0, 0, 1});
  lab.Add(2, {0, .5f});
  ASSERT_TRUE(lab.Run({.estimator = kReinforcePlusPlus, .gamma = .9}).ok());
  ExpectRow(lab.returns[0], {.81, .9, 1}, "returns");
  ExpectRow(lab.returns[1], {.45, .5}, "returns");
  ExpectRow(lab.advantages[0], {.318779, .686601, 1.095293}, "advantages");
  ExpectRow(lab.advantages[1], {-1.152509, -.948164}, "advantages");
}

TEST(Advantage, Gae) {
  Lab lab;
  lab.Add(1, {0, 0, 1}, {.2f, .3f, .4f});
  lab.Add(2, {0, .5f}, {.1f, .6f});
  ASSERT_TRUE(lab.Run({.estimator = kGae, .gamma = .99, .lambda = .95}).ok());
  ExpectRow(lab.returns[0], {.918012, .9603, 1}, "returns");
  ExpectRow(lab.returns[1], {.49995, .5}, "returns");
  ExpectRow(lab.advantages[0], {.788004, .614664, .433552}, "advantages");
  ExpectRow(lab.advantages[1], {-.167304, -1.668916}, "advantages");
}

TEST(Advantage, RemaxBroadcastsTheScoreAboveTheBaseline) {
  Lab lab;
  lab.Add(1, {.25f, 0, 1}, {}, .5);
  lab.Add(1, {1}, {}, .5);
  ASSERT_TRUE(lab.Run({.estimator = kRemax, .gamma = .5, .samples = 2}).ok());
  ExpectRow(lab.advantages[0], {.75, .75, .75}, "advantages");
  ExpectRow(lab.returns[0], {1.25, 1, 1}, "returns have no discount");
  ExpectRow(lab.advantages[1], {.5}, "advantages");
}

TEST(Advantage, OneTokenInAllStaysFinite) {
  Lab lab;
  lab.Add(1, {1});
  ASSERT_TRUE(lab.Run({.estimator = kReinforcePlusPlus}).ok());
  EXPECT_NEAR(lab.advantages[0][0], 0, 2e-4);
}

TEST(Advantage, AGroupOfAnotherSizeIsAnError) {
  Lab lab;
  lab.Add(7, {1});
  lab.Add(8, {1});
  lab.Add(8, {0});
  const Status status = lab.Run({.estimator = kGrpo, .samples = 2});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Errc::kCorrupt);
  EXPECT_EQ(status.error().member(), "group 7");
  EXPECT_EQ(status.error().message(), "the group of row 0 has 1 rows, expected 2");
}

TEST(Advantage, OneSampleCannotBeCompared) {
  for (const AdvantageEstimator estimator : {kGrpo, kGrpoPassk, kRloo}) {
    Lab lab;
    lab.Add(7, {1});
    const Status status = lab.Run({.estimator = estimator, .samples = 1});
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), Errc::kUsage);
    EXPECT_EQ(status.error().member(), "worker.rollout.n");
  }
}

TEST(Advantage, NumbersThatAreNotFiniteAreNamed) {
  Lab lab;
  lab.Add(1, {0, 1});
  lab.Add(1, {0, std::numeric_limits<float>::quiet_NaN()});
  const Status status = lab.Run({.estimator = kGrpo, .samples = 2});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Errc::kCorrupt);
  EXPECT_EQ(status.error().member(), "row 1");
  EXPECT_EQ(status.error().message(), "the reward of token 1 is nan, expected a finite number");
}

TEST(Advantage, GaeNeedsAValueForEveryToken) {
  Lab lab;
  lab.Add(1, {0, 1}, {.5f});
  const Status status = lab.Run({.estimator = kGae});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().member(), "row 0");
  EXPECT_NE(status.error().message().find("2 rewards"), std::string::npos);
  EXPECT_NE(status.error().message().find("1 values"), std::string::npos);
}

TEST(Advantage, Names) {
  for (const char* name : {"gae", "grpo", "grpo_passk", "reinforce_plus_plus", "remax", "rloo"})
    EXPECT_TRUE(ParseAdvantageEstimator(name).ok()) << name;
  const auto wrong = ParseAdvantageEstimator("grpo_pask");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code(), Errc::kUsage);
  EXPECT_EQ(wrong.error().member(), "algorithm.adv_estimator");
  EXPECT_EQ(wrong.error().hint(), "did you mean grpo_passk?");
  EXPECT_EQ(wrong.error().message(),
            "'grpo_pask' is not one of gae, grpo, grpo_passk, reinforce_plus_plus, remax, rloo");
}

}  // namespace
}  // namespace nxdkit::trainer
