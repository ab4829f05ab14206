#include "trainer/report/run_end.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nxdkit::trainer {
namespace {

TEST(RunEnd, SaysInThreeLinesWhatWasDoneAndWhereItIs) {
  Bill bill;
  bill.progress.done = 300;
  bill.tokens_so_far = 8.2e6;
  bill.seconds_so_far = 19200;
  EXPECT_EQ(RunEndText({"run", "run/global_step_300", "log/my run", Point{250, 0.8125}}, bill),
            "300 steps done, in run: 8.2 M tokens in 5 h 20 min\n"
            "best validation: reward_score 0.8125 at step 250\n"
            "report: grpo-train report run  curves: tensorboard --logdir 'log/my run'"
            "  checkpoint: run/global_step_300\n");
}

TEST(RunEnd, LeavesOutWhatThereIsNot) {
  Bill bill;
  bill.progress.done = 1;
  EXPECT_EQ(RunEndText({"it's", "", "", std::nullopt}, bill),
            "1 step done, in it's\nreport: grpo-train report 'it'\\''s'\n");
}

TEST(RunEnd, TheBestValidationIsTheFirstOfTheHighest) {
  MetricSeries series;
  EXPECT_FALSE(BestValidation(series));
  series.by_name["val/reward_score"] = {{0, 0.25}, {10, 0.5}, {20, std::nan("")}, {30, 0.5}};
  const auto best = BestValidation(series);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->step, 10);
  EXPECT_EQ(best->value, 0.5);
}

}  // namespace
}  // namespace nxdkit::trainer
