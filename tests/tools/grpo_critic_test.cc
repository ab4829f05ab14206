// grpo-train with a critic: its training and its files, killed and resumed, and the refused
// configurations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "tests/tools/grpo_workshop.h"
#include "tests/tools/kill.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class GrpoTrainCritic : public GrpoTrain {
 protected:
  // The same model as actor and critic.
  Words Gae(const Words& words) const {
    Words all = {"algorithm.adv_estimator=gae",
                 "worker.critic.model.model_path=" + (workshop_ / "arithmetic/model"),
                 "worker.critic.global_batch_size=16",
                 "worker.critic.micro_batch_size_per_device_for_update=128",
                 "worker.critic.micro_batch_size_per_device_for_experience=512",
                 "worker.critic.optim.lr=1e-3"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  std::string Model() const { return workshop_ / "arithmetic/model"; }
};

TEST_F(GrpoTrainCritic, TrainsItAndTheToolsKnowIt) {
  workshop_.Write("reward.sh", "while read -r line; do echo '{\"overall\": 0.5}'; done\n");
  const std::string reward = "worker.reward.reward_function=exec:bash " + (workshop_ / "reward.sh");
  const ProcessResult result =
      Train("run", Gae({"trainer.max_steps=12", "trainer.save_freq=6", "trainer.critic_warmup=3",
                        "worker.critic.optim.lr=3e-3", reward}));
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const std::map<int64_t, Json> steps = Steps("run");
  const double first = steps.at(1).at("critic").at("vf_loss").get<double>();
  EXPECT_NEAR(first, 0.125, 0.03) << "half the square of the whole reward";
  EXPECT_LT(steps.at(12).at("critic").at("vf_loss").get<double>(), first / 5);
  EXPECT_FALSE(steps.at(2)["actor"].contains("grad_norm"));
  EXPECT_TRUE(steps.at(3)["actor"].contains("grad_norm"));
  const std::string critic = workshop_ / "run/global_step_12/critic";
  const ProcessResult verified = RunProcess({Workshop::Tool("ckpt-verify"), critic});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  const ProcessResult digest = RunProcess({Workshop::Tool("ckpt-digest"), critic});
  EXPECT_EQ(digest.exit_code, 0) << digest.err;
  const ProcessResult inspected =
      RunProcess({Workshop::Tool("ckpt-inspect"), critic, "--filter", "score*"});
  EXPECT_THAT(inspected.out, HasSubstr("score.weight")) << inspected.out << inspected.err;
  const ProcessResult equal =
      RunProcess({Workshop::Tool("ckpt-diff"), critic, critic + "/huggingface", "--rtol", "0.01"});
  EXPECT_EQ(equal.exit_code, 0) << equal.out << equal.err;
  // A new run may begin with the trained critic.
  const ProcessResult again =
      Train("again", Gae({"trainer.max_steps=1", reward,
                          "worker.critic.model.model_path=" + critic + "/huggingface"}));
  ASSERT_EQ(again.exit_code, 0) << again.out << again.err;
  EXPECT_LT(JsonOf(again)["metrics"]["critic/vf_loss"].get<double>(), first / 3);
}

TEST_F(GrpoTrainCritic, GoesOnAfterKillMinus9AsIfNothingHadBeen) {
  const Words words = Gae({"trainer.max_steps=12", "trainer.save_freq=3", "trainer.save_limit=2",
                           "algorithm.lam=0.95"});
  ASSERT_EQ(Train("whole", words).exit_code, 0);
  const pid_t child = StartProcess(Command("killed", words));
  ASSERT_TRUE(WaitFor(workshop_ / "killed/global_step_3"));
  ::kill(child, SIGKILL);
  EXPECT_EQ(WaitProcess(child), 128 + SIGKILL);
  const ProcessResult rest = Train("killed", words);
  ASSERT_EQ(rest.exit_code, 0) << rest.out;
  EXPECT_EQ(Steps("killed"), Steps("whole"));
  const auto digest = [&](const std::string& run) {
    const ProcessResult result = RunProcess(
        {Workshop::Tool("ckpt-digest"), workshop_ / (run + "/global_step_12/critic"), "--json"});
    return Json::parse(result.out)["digest"];
  };
  EXPECT_EQ(digest("killed"), digest("whole"));
}

TEST_F(GrpoTrainCritic, SaysWhatIsWrongWithIt) {
  const auto refused = [&](const Words& words, int exit_code, const std::string& message) {
    const ProcessResult result = Train("run", Gae(words));
    EXPECT_EQ(result.exit_code, exit_code) << result.out;
    EXPECT_THAT(result.out, HasSubstr(message));
  };
  refused({"worker.critic.model.model_path=null"}, 2, "no model is named");
  refused({"worker.critic.model.model_path=nowhere"}, 3, "nowhere");
  refused({"worker.critic.global_batch_size=24"}, 2,
          "data.rollout_batch_size 32 is not a multiple of 24");
  refused({"worker.critic.optim.strategy=adamw_bf16"}, 2, "worker.critic.optim.strategy");
  EXPECT_FALSE(fs::exists(workshop_ / "run"));
  Json config = Json::parse(ReadFile(Model() + "/config.json"));
  config["num_attention_heads"] = 3;
  config["num_key_value_heads"] = 3;
  const std::string odd = workshop_ / "odd";
  ASSERT_EQ(RunProcess({Workshop::Tool("nxdkit-make-model"), "--config",
                        workshop_.Write("odd.json", config.dump()), "--out", odd})
                .exit_code,
            0);
  refused({"worker.critic.model.model_path=" + odd}, 2,
          "3 attention heads of the critic cannot be divided over 2 ranks");
}

}  // namespace
}  // namespace nxdkit::test
