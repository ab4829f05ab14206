// Engines of other programs behind a pool of workers: a dead one is restarted, its unanswered
// requests are generated again, and nothing is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "tests/lib/expect_error.h"
#include "tests/lib/processes.h"
#include "tests/trainer/engines/vllm_peer.h"
#include "tests/trainer/rollout/rollout_lab.h"
#include "trainer/rollout/worker_pool.h"

namespace nxdkit::trainer {
namespace {

using ::testing::HasSubstr;
using testing_util::AreGone;
using testing_util::CountProcesses;
using testing_util::ExpectError;

class Supervision : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.command = {NXDKIT_ROLLOUT_WORKER};
    options_.grace = std::chrono::seconds(10);
    options_.on_warning = [this](const std::string& line) { warnings_.push_back(line); };
  }

  EngineOptions Engine(std::vector<std::string> faults = {}) const {
    EngineOptions options;
    options.kind = EngineKind::kVllm;
    options.bundle = lab_.model();
    OtherEngine& other = options.other;
    other.command = {NXDKIT_VLLM_PEER, "{port}", "{model}"};
    other.command.insert(other.command.end(), faults.begin(), faults.end());
    other.vocab = lab_.vocab();
    other.seq_len = 32;
    other.start_seconds = 60;
    other.answer_seconds = 60;
    other.version = "step 1";
    other.parameters = PredictedOf(lab_.model());
    return options;
  }
  WorkerPool Start() {
    auto pool = WorkerPool::Start(options_);
    EXPECT_TRUE(pool.ok()) << Text(pool);
    return *std::move(pool);
  }
  static std::vector<RolloutRequest> Requests() {
    SamplingParams sampling;
    sampling.log_probs = true;
    sampling.max_tokens = 4;
    return SampleRequests(16, 2, sampling);
  }

  const RolloutLab lab_{testing_util::TinyQwen3()};
  WorkerPoolOptions options_;
  std::vector<std::string> warnings_;
};

TEST_F(Supervision, AServerIsStartedKeptAndEnded) {
  {
    WorkerPool pool = Start();
    auto facts = pool.Load(Engine());
    ASSERT_TRUE(facts.ok()) << Text(facts);
    EXPECT_TRUE(facts->seconds.contains("start"));
    EXPECT_GT(facts->proved, 0);
    facts = pool.Load(Engine());
    ASSERT_TRUE(facts.ok()) << Text(facts);
    EXPECT_FALSE(facts->seconds.contains("start")) << "it takes the next weights as it runs";
    EXPECT_TRUE(pool.Generate(Requests()).ok());
    EXPECT_EQ(CountProcesses(lab_.model()), 2) << "the server and its child";
  }
  EXPECT_TRUE(AreGone(lab_.model()));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Supervision, OneThatDiesIsStartedAgainForWhatItHadNotAnswered) {
  options_.workers = 2;
  WorkerPool pool = Start();
  const std::string once = lab_.Path("once");
  ASSERT_TRUE(pool.Load(Engine({"dies-at", "3", "once", once})).ok());
  const auto generated = pool.Generate(Requests());
  ASSERT_TRUE(generated.ok()) << Text(generated);
  for (const RolloutResponse& response : generated->responses) EXPECT_FALSE(response.ids.empty());
  EXPECT_EQ(pool.restarts(), 1);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("has an engine that failed"));
}

TEST_F(Supervision, OneThatNeverStartsIsAnError) {
  WorkerPool pool = Start();
  ExpectError(pool.Load(Engine({"exits"})), Errc::kIo, "exited with 3 before it answered");
  EXPECT_EQ(warnings_.size(), 3u);
  EngineOptions silent = Engine({"silent"});
  silent.other.start_seconds = 0.2;
  ExpectError(pool.Load(silent), Errc::kIo, "does not answer /health with 200 after 0.2 s");
}

TEST_F(Supervision, StaleWeightsEndTheRunAtOnce) {
  WorkerPool pool = Start();
  EngineOptions engine = Engine();
  engine.other.parameters[0].second = std::string(64, 'a');
  ExpectError(pool.Load(engine), Errc::kFindings, "stale weights: model.embed_tokens.weight");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Supervision, NothingIsLeftWhenTheTrainerIsKilled) {
  const pid_t trainer = ::fork();
  if (trainer == 0) {
    WorkerPool pool = Start();
    if (!pool.Load(Engine()).ok()) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(trainer, &status, 0), trainer);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_TRUE(AreGone(lab_.model()));
}

TEST_F(Supervision, AStoppedRunLeavesNothing) {
  {
    WorkerPool pool = Start();
    int polls = 0;
    const auto stop = [&] {
      return ++polls > 5 ? Status(Error(Errc::kInterrupted, "stopped")) : OkStatus();
    };
    ExpectError(pool.Load(Engine({"silent"}), stop), Errc::kInterrupted, "stopped");
  }
  EXPECT_TRUE(AreGone(lab_.model()));
}

// Sixteen in flight for many steps: no more memory, descriptors or processes than after the first
// ones.
TEST_F(Supervision, TwoHundredStepsTakeNoMore) {
  // Each thread would take memory from an arena of its own, as many as happen to run at once.
  options_.environment = {"MALLOC_ARENA_MAX=1"};
  WorkerPool pool = Start();
  ASSERT_TRUE(pool.Load(Engine()).ok());
  const auto measure = [&] {
    const std::string proc = "/proc/" + std::to_string(pool.pids()[0]);
    std::pair<int64_t, int64_t> out{0, 0};
    for ([[maybe_unused]] const auto& fd : std::filesystem::directory_iterator(proc + "/fd"))
      ++out.first;
    const std::string statm = testing_util::ReadBytes(proc + "/statm");
    out.second = std::stoll(statm.substr(statm.find(' '))) * ::getpagesize();
    return out;
  };
  std::pair<int64_t, int64_t> early;
  for (int step = 0; step < 200; ++step) {
    ASSERT_TRUE(pool.Load(Engine()).ok());
    ASSERT_TRUE(pool.Generate(Requests()).ok());
    if (step == 20) early = measure();
  }
  const auto late = measure();
  EXPECT_EQ(late.first, early.first);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int64_t kSlack = int64_t{32} << 20;  // freed memory is kept for a while
#else
  constexpr int64_t kSlack = int64_t{4} << 20;  // for holes in the heap
#endif
  EXPECT_LE(late.second, early.second + kSlack);
}

}  // namespace
}  // namespace nxdkit::trainer
