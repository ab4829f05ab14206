#include "trainer/algo/schedule.h"

#include <gtest/gtest.h>

namespace nxdkit::trainer {
namespace {

TEST(Schedule, ConstantWithWarmup) {
  const Schedule schedule = {.warmup_steps = 5};
  const double expected[] = {0, .2, .4, .6, .8, 1, 1};
  for (int64_t step = 0; step < 7; ++step)
    EXPECT_NEAR(ScheduleFactor(schedule, step), expected[step], 1e-12) << step;
  EXPECT_EQ(ScheduleFactor({}, 0), 1);
}

TEST(Schedule, CosineWithWarmupAndFloor) {
  const Schedule schedule = {ScheduleType::kCosine, 5, 50, 0.1};
  const std::pair<int64_t, double> expected[] = {{0, 0},        {1, .2},       {4, .8},
                                                 {5, 1},        {10, .972862}, {27, .565705},
                                                 {49, .101096}, {50, .1},      {60, .1}};
  for (const auto& [step, factor] : expected)
    EXPECT_NEAR(ScheduleFactor(schedule, step), factor, 6e-7) << step;
}

TEST(Schedule, StepsOfWarmupWinOverTheirShare) {
  EXPECT_EQ(WarmupSteps(7, 0.5, 50), 7);
  EXPECT_EQ(WarmupSteps(0, 0.5, 50), 0);
  EXPECT_EQ(WarmupSteps(-1, 0.15, 50), 7);
}

TEST(Schedule, Names) {
  EXPECT_TRUE(ParseScheduleType("cosine").ok());
  EXPECT_EQ(ParseScheduleType("linear").error().member(), "optim.lr_scheduler_type");
}

}  // namespace
}  // namespace nxdkit::trainer
