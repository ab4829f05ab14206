// grpo-train with an engine of another program: a user's view of a run that succeeds, and of one
// whose engine generates with other weights, dies, or is stopped. The peer only produces faults;
// the real server is in tests/vllm.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>

#include "tests/lib/processes.h"
#include "tests/tools/grpo_peer.h"
#include "tests/tools/kill.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

size_t CountOf(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

class GrpoEngine : public GrpoOnPeer {
 protected:
  ProcessResult Run(const std::string& run, const std::string& faults, const Words& more) const {
    return Train(run, OnPeer(faults, more));
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

// The worker extension's answers, over /collective_rpc; no reload is tried.
TEST_F(GrpoEngine, OneOnNeuronIsStartedForEverySyncAndProved) {
  const ProcessResult result =
      Run("run", " workers 1",
          {"trainer.max_steps=2", "worker.rollout.max_log_prob_gap=100",
           "worker.rollout.engine_layout=vllm-neuron", "trainer.val_before_train=false"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::ifstream log(workshop_ / "run/experiment_log.jsonl");
  int steps = 0;
  for (std::string line; std::getline(log, line);) {
    const Json json = Json::parse(line);
    if (!json.contains("sync")) continue;
    ++steps;
    EXPECT_EQ(json["sync"]["proved"], 21);
    EXPECT_GT(json["timing_s"]["sync_start"], 0);
    EXPECT_EQ(json["timing_s"].contains("sync_stop"), steps > 1);
    EXPECT_FALSE(json["timing_s"].contains("sync_reload"));
  }
  EXPECT_EQ(steps, 2);
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

// A whole run on two servers: each proves its weights and takes its share of the prompts.
TEST_F(GrpoEngine, TwoServersShareThePrompts) {
  fs::create_directory(workshop_ / "log");
  const ProcessResult result = Run(
      "run", " log " + (workshop_ / "log"),
      {"trainer.max_steps=2", "worker.rollout.max_log_prob_gap=100", "worker.rollout.servers=2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Steps("run").size(), 2u);
  std::vector<size_t> requests;
  for (const auto& file : fs::directory_iterator(workshop_ / "log")) {
    const std::string asked = ReadFile(file.path());
    requests.push_back(CountOf(asked, "/inference/v1/generate\n"));
    EXPECT_EQ(CountOf(asked, "/collective_rpc\n"), 1u) << "the second step's weights";
    EXPECT_GE(CountOf(asked, "/weight_checker\n"), 2u);
  }
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0], requests[1]);
}

// Folders as a user types them: the engine has another working directory.
TEST_F(GrpoEngine, FoldersMayBeRelative) {
  Words words = OnPeer("", {"trainer.max_steps=2", "worker.rollout.max_log_prob_gap=100"});
  words.push_back("worker.actor.model.model_path=arithmetic/model_vllm");
  words.push_back("trainer.save_checkpoint_path=relative");
  Words command = {"/bin/sh", "-c", "cd '" + (workshop_ / "") + "' && exec \"$@\"", "sh"};
  for (const std::string& word : Command("relative", words)) command.push_back(word);
  const ProcessResult result = RunProcess(command);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Steps("relative").size(), 2u);
}

// Ctrl-C and SIGTERM while the server starts, takes weights and generates: the run ends at once
// with the documented code, and nothing is left.
TEST_F(GrpoEngine, StoppedInAnyPhaseItLeavesNothing) {
  for (const char* path : {"/health", "/collective_rpc", "/inference/v1/generate"})
    for (const int signal : {SIGINT, SIGTERM}) {
      SCOPED_TRACE(fmt::format("{} at {}", signal, path));
      const std::string run = fmt::format("run-{}-{}", fs::path(path).filename().string(), signal);
      const std::string hangs = workshop_ / (run + ".hangs");
      const pid_t child = StartProcess(
          Command(run, OnPeer(fmt::format(" hangs-at {} {}", path, hangs),
                              {"trainer.max_steps=3", "worker.rollout.max_log_prob_gap=100"})));
      ASSERT_TRUE(WaitFor(hangs));
      const auto begin = std::chrono::steady_clock::now();
      ::kill(child, signal);
      EXPECT_EQ(WaitProcess(child), 128 + signal);
      const auto taken = std::chrono::steady_clock::now() - begin;
      EXPECT_LT(taken, std::chrono::seconds(15)) << taken.count() / 1000000 << " ms";
      EXPECT_TRUE(testing_util::AreGone(hangs));
    }
}

TEST_F(GrpoEngine, ACommandThatIsNotThereIsNamed) {
  const ProcessResult result =
      Run("run", "", {"worker.rollout.command=no-such-vllm {port} {model}", "trainer.max_steps=2"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no-such-vllm"));
}

}  // namespace
}  // namespace nxdkit::test
