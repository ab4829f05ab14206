// A warning where rewards cannot teach anything, and no warning where they can.
#include "trainer/loop/reward_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nxdkit::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two prompts with two responses each, of these scores; neighbours are of different prompts.
std::vector<Sample> Step(std::vector<double> scores, double baseline = 0) {
  std::vector<Sample> samples(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    samples[i].group = i % 2;
    samples[i].scores["overall"] = scores[i];
    samples[i].baseline = baseline;
  }
  return samples;
}

struct Watched {
  explicit Watched(AdvantageEstimator estimator = AdvantageEstimator::kGrpo,
                   bool kl_in_rewards = false, bool resumed = false)
      : watch(estimator, kl_in_rewards, resumed) {}
  std::string Take(std::vector<double> scores, double baseline = 0) {
    Metrics metrics;
    const std::string warning = watch.Take(Step(std::move(scores), baseline), metrics);
    const MetricRecord record = metrics.Means();
    const double* share = FindMetric(record, "critic/score/equal_groups");
    equal = share ? *share : -1;
    return warning;
  }
  RewardWatch watch;
  double equal = -1;
};

TEST(RewardWatch, EqualScoresAreToldAfterFiveSteps) {
  Watched run;
  for (int step = 1; step <= 4; ++step) EXPECT_THAT(run.Take({0, 0, 0, 0}), IsEmpty()) << step;
  EXPECT_EQ(run.equal, 1);
  const std::string warning = run.Take({0, 0, 0, 0});
  EXPECT_THAT(warning, HasSubstr("nothing has been learnt from the rewards in all 5 steps: all "
                                 "responses to each prompt scored the same (0), so that all "
                                 "advantages are 0"));
  EXPECT_THAT(warning, HasSubstr("data.answer_key"));
  EXPECT_THAT(warning, HasSubstr("unless the task is learnt"));
  for (int step = 6; step < 50; ++step) EXPECT_THAT(run.Take({0, 0, 0, 0}), IsEmpty()) << step;
  EXPECT_THAT(run.Take({0, 0, 0, 0}), HasSubstr("in all 50 steps"));
  EXPECT_THAT(run.watch.AtEnd(), IsEmpty()) << "it has been told";
}

TEST(RewardWatch, PromptsMayDifferWithoutTeachingAnything) {
  Watched run;
  EXPECT_THAT(run.Take({1, 0.5, 1, 0.5}), IsEmpty());
  EXPECT_EQ(run.equal, 1);
  run.Take({1, 0.5, 1, 0.5});
  EXPECT_THAT(run.watch.AtEnd(), HasSubstr("in all 2 steps: all responses to each prompt scored "
                                           "the same (0.5 to 1)"));
}

TEST(RewardWatch, OneGroupThatDiffersIsEnough) {
  Watched run;
  for (int step = 1; step <= 60; ++step)
    EXPECT_THAT(run.Take({0, 0, 0, step % 5 == 0 ? 1.0 : 0}), IsEmpty()) << step;
  EXPECT_EQ(run.equal, 0.5);
  EXPECT_THAT(run.watch.AtEnd(), IsEmpty());
}

TEST(RewardWatch, ALaterStandstillIsToldToo) {
  Watched run;
  run.Take({0, 0, 1, 1});
  std::string warning;
  for (int step = 0; step < 5; ++step) warning = run.Take({1, 1, 1, 1});
  EXPECT_THAT(warning, HasSubstr("in the last 5 steps"));
  EXPECT_THAT(run.watch.AtEnd(), IsEmpty()) << "the run has learnt something";
}

// A penalty subtracted from the rewards differs between responses with the same score.
TEST(RewardWatch, WithKlInTheRewardsAdvantagesAreNotAllZero) {
  Watched run(AdvantageEstimator::kGrpo, true);
  std::string warning;
  for (int step = 0; step < 5; ++step) warning = run.Take({0, 0, 0, 0});
  EXPECT_THAT(warning, HasSubstr("scored the same (0); check"));
}

TEST(RewardWatch, AResumedRunTellsOfItsProcessAlone) {
  Watched run(AdvantageEstimator::kGrpo, false, true);
  run.Take({0, 0, 0, 0});
  run.Take({0, 0, 0, 0});
  EXPECT_THAT(run.watch.AtEnd(), HasSubstr("in all 2 steps of this process: all responses"));
  Watched later(AdvantageEstimator::kGrpo, false, true);
  later.Take({0, 0, 1, 1});
  std::string warning;
  for (int step = 0; step < 5; ++step) warning = later.Take({0, 0, 0, 0});
  EXPECT_THAT(warning, HasSubstr("in the last 5 steps: all responses"));
}

// One response per prompt: groups compare nothing, a batch does.
TEST(RewardWatch, SingleResponsesAreEqualToNothing) {
  Watched groups;
  for (int step = 0; step < 5; ++step) EXPECT_THAT(groups.Take({1, 1}), IsEmpty());
  EXPECT_EQ(groups.equal, -1) << "there is no share";
  EXPECT_THAT(groups.watch.AtEnd(), IsEmpty());
  Watched one(AdvantageEstimator::kGae);
  for (int step = 0; step < 5; ++step) EXPECT_THAT(one.Take({1}), IsEmpty());
  Watched batch(AdvantageEstimator::kGae);
  std::string warning;
  for (int step = 0; step < 5; ++step) warning = batch.Take({1, 1});
  EXPECT_THAT(warning, HasSubstr("all responses scored the same (1)"));
}

TEST(RewardWatch, OneStepIsNoRun) {
  Watched run;
  run.Take({0, 0, 0, 0});
  EXPECT_THAT(run.watch.AtEnd(), IsEmpty());
}

// Whitened over the batch: prompts that differ teach something.
TEST(RewardWatch, EstimatorsWithoutGroupsCompareAll) {
  Watched batch(AdvantageEstimator::kReinforcePlusPlus);
  for (int step = 0; step < 5; ++step) EXPECT_THAT(batch.Take({1, 0.5, 1, 0.5}), IsEmpty());
  std::string warning;
  for (int step = 0; step < 5; ++step) warning = batch.Take({1, 1, 1, 1});
  EXPECT_THAT(warning, HasSubstr("all responses scored the same (1)"));
  Watched remax(AdvantageEstimator::kRemax);
  for (int step = 0; step < 5; ++step) EXPECT_THAT(remax.Take({1, 1, 1, 1}, 0), IsEmpty());
  for (int step = 0; step < 5; ++step) warning = remax.Take({1, 1, 1, 1}, 1);
  EXPECT_THAT(warning, HasSubstr("nothing has been learnt"));
}

}  // namespace
}  // namespace nxdkit::trainer
