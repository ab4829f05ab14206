// grpo-train with an engine of another program: what a user sees of a run that goes well, of one
// whose engine generates with other weights, dies, or is stopped. The peer serves to produce
// faults; the real server is in tests/vllm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/grpo_workshop.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class GrpoEngine : public GrpoTrain {
 protected:
  // On a server of the peer, started by the run. What it says of its log-probabilities is made up.
  ProcessResult Run(const std::string& run, const std::string& faults, Words more) const {
    Words words = {"worker.actor.model.model_path=" + (workshop_ / "arithmetic/model_vllm"),
                   "worker.actor.tensor_parallel_size=1",
                   "worker.rollout.tensor_parallel_size=1",
                   "worker.rollout.neuron_override_config.tp_degree=null",
                   "worker.rollout.dtype=bf16",
                   "trainer.separate_rollout_workers=false",
                   "trainer.cores=1",
                   "worker.rollout.engine=vllm",
                   "worker.rollout.command=" NXDKIT_VLLM_PEER " {port} {model}" + faults};
    words.insert(words.end(), more.begin(), more.end());
    return Train(run, words);
  }
};

TEST_F(GrpoEngine, EverySyncIsProvedAndLogged) {
  const ProcessResult result =
      Run("run", "", {"trainer.max_steps=3", "worker.rollout.max_log_prob_gap=100"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::ifstream log(workshop_ / "run/experiment_log.jsonl");
  int steps = 0;
  for (std::string line; std::getline(log, line);) {
    const Json json = Json::parse(line);
    if (!json.contains("sync")) continue;
    ++steps;
    EXPECT_EQ(json["sync"]["proved"], 19);
    EXPECT_EQ(json["sync"]["not_covered"], 0);
    EXPECT_GT(json["timing_s"]["sync_check"], 0);
    EXPECT_EQ(json["timing_s"].contains("sync_start"), steps == 1);
    EXPECT_EQ(json["timing_s"].contains("sync_reload"), steps > 1);
  }
  EXPECT_EQ(steps, 3);
}

TEST_F(GrpoEngine, OneThatGeneratesWithOtherWeightsStopsTheRun) {
  const ProcessResult result = Run("run", "", {"trainer.max_steps=3"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("worker.rollout.max_log_prob_gap"));
  EXPECT_THAT(result.err, HasSubstr("over the bound of 0.5: it generates with other weights"));
}

TEST_F(GrpoEngine, OneThatDiesLosesNoStep) {
  const ProcessResult result = Run("run", " dies-at 5 once " + (workshop_ / "once"),
                                   {"trainer.max_steps=2", "worker.rollout.max_log_prob_gap=100"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Steps("run").size(), 2u);
  EXPECT_THAT(result.err, HasSubstr("has an engine that failed"));
}

TEST_F(GrpoEngine, OneThatNeverAnswersIsGivenUp) {
  const ProcessResult result =
      Run("run", " silent", {"trainer.max_steps=2", "worker.rollout.start_timeout_s=0.3"});
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("does not answer /health with 200 after 0.3 s"));
  EXPECT_THAT(result.err, HasSubstr("rollout_worker_0.log"));
}

TEST_F(GrpoEngine, ACommandThatIsNotThereIsNamed) {
  const ProcessResult result =
      Run("run", "", {"worker.rollout.command=no-such-vllm {port} {model}", "trainer.max_steps=2"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no-such-vllm"));
}

}  // namespace
}  // namespace nxdkit::test
