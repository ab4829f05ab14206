#include "trainer/report/step_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;

const MetricRecord kStep = {
    {"actor/entropy_loss", 2.3125},       {"actor/grad_norm", 0.25125},
    {"actor/kl_loss", 1.23e-5},           {"perf/throughput", 3086.25},
    {"perf/time_per_step", 12.44},        {"perf/total_num_tokens", 153572},
    {"response_length/clip_ratio", 0.03}, {"response_length/mean", 412},
    {"reward/overall", -0.5124},
};

TEST(StepTable, AStepIsARowOfEightyColumns) {
  StepTable table(300, 0);
  EXPECT_THAT(
      table.Step(12, kStep, {3723, std::nullopt}),
      ElementsAre(
          "   step  reward       kl  entropy  length   cut     grad  tok/s    sec     left",
          " 12/300  -0.512  1.2e-05     2.31     412    3%    0.251  12.3k   12.4  1:02:03"));
  EXPECT_EQ(table.Step(13, kStep, {}).size(), 1u) << "the heading is there already";
}

TEST(StepTable, ASmallRewardAndAShortStepHaveDigits) {
  StepTable table(300, 0);
  EXPECT_THAT(table.Step(1, {{"perf/time_per_step", 0.049}, {"reward/overall", 0.00391}}, {}),
              ElementsAre("   step  reward    sec     left", "  1/300  0.0039   0.05        -"));
}

TEST(StepTable, TheHeadingComesAgainAfterTwentyRows) {
  StepTable table(300, 0);
  std::vector<size_t> lines;
  for (int step = 1; step <= 41; ++step)
    if (table.Step(step, kStep, {}).size() == 2) lines.push_back(static_cast<size_t>(step));
  EXPECT_THAT(lines, ElementsAre(1, 21, 41));
}

TEST(StepTable, AnotherMetricIsAnotherHeading) {
  StepTable table(10, 0);
  EXPECT_THAT(table.Step(1, {{"actor/ppo_kl", 0.0123}}, {}),
              ElementsAre("   step   ppo_kl     left", "   1/10   0.0123        -"));
  EXPECT_THAT(table.Step(2, {{"actor/pg_loss", -0.1}}, {}),
              ElementsAre("   step     loss     left", "   2/10   -0.100        -"));
}

TEST(StepTable, ANarrowTerminalGetsWhatMattersMost) {
  StepTable table(300, 40);
  for (const std::string& line : table.Step(1, kStep, {60, 4.3}))
    EXPECT_LT(line.size(), 40u) << line;
  EXPECT_THAT(StepTable(100000, 80).Step(99999, kStep, {3723, std::nullopt})[0],
              ::testing::AllOf(::testing::HasSubstr("reward"), ::testing::HasSubstr("left"),
                               ::testing::Not(::testing::HasSubstr("cut"))));
}

TEST(StepTable, AValidationSaysItsMeansAsFarAsTheyFit) {
  const StepTable table(300, 70);
  EXPECT_EQ(table.Validation(250, {{"val/accuracy_reward", 0.75},
                                   {"val/overall_reward", 0.5},
                                   {"val/reward_score", 0.5},
                                   {"val/unbelievably_long_name_reward", 1},
                                   {"val_response_length/mean", 7}}),
            "250/300  validation  reward_score 0.500  accuracy_reward 0.750");
}

TEST(StepTable, NumbersHaveThreeDigits) {
  const std::pair<double, const char*> rows[] = {
      {0, "0"},           {0.5, "0.500"},       {-0.51249, "-0.512"},
      {0.0123, "0.0123"}, {0.00123, "0.00123"}, {1.24e-5, "1.2e-05"},
      {0.9996, "1.00"},   {9.996, "10.0"},      {412.3, "412"},
      {999.6, "1.00k"},   {12345, "12.3k"},     {1.5e6, "1.50M"},
      {-2e9, "-2.00G"}};
  for (const auto& [value, text] : rows) EXPECT_EQ(CellNumber(value), text) << value;
}

}  // namespace
}  // namespace nxdkit::trainer
