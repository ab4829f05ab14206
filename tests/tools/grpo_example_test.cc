// The README's example as it is shipped: it learns.
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/grpo_workshop.h"

namespace nxdkit::test {
namespace {

class GrpoExampleSlow : public GrpoTrain {};

// Half of its steps are enough: the README shows 0.98 for them.
TEST_F(GrpoExampleSlow, LearnsToAdd) {
  const ProcessResult done =
      Train("run", {"worker.actor.optim.lr_scheduler_type=cosine", "trainer.max_steps=400",
                    "trainer.val_freq=50", "trainer.val_before_train=true"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const auto steps = Steps("run");
  ASSERT_TRUE(steps.contains(0) && steps.contains(400));
  EXPECT_LE(steps.at(0)["val"]["accuracy_reward"], 0.2) << "near chance";
  EXPECT_GE(steps.at(400)["val"]["accuracy_reward"], 0.9);
  EXPECT_GE(steps.at(400)["reward"]["accuracy"], 0.8) << "of samples, at temperature 1";
}

}  // namespace
}  // namespace nxdkit::test
