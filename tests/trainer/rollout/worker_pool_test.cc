// Workers in processes of their own: the same responses as an engine here, whatever happens to
// them.
#include "trainer/rollout/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/trainer/rollout/rollout_lab.h"

namespace nxdkit::trainer {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_util::TinyLlama;

SamplingParams SampledLong() {
  SamplingParams sampling;
  sampling.temperature = 0.9f;
  sampling.log_probs = true;
  sampling.max_tokens = 40;
  return sampling;
}

WorkerPoolOptions Options(int workers = 2) {
  WorkerPoolOptions options;
  options.command = {NXDKIT_ROLLOUT_WORKER};
  options.workers = workers;
  return options;
}

WorkerPool Start(const WorkerPoolOptions& options) {
  auto pool = WorkerPool::Start(options);
  EXPECT_TRUE(pool.ok()) << Text(pool);
  return *std::move(pool);
}

// Waits for a process that is not our child, or until it is clear that it stays.
bool HasEnded(int pid) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return errno == ESRCH;
  pollfd waiting{fd, POLLIN, 0};
  const bool ended = ::poll(&waiting, 1, 20'000) == 1;
  ::close(fd);
  return ended;
}

bool HasChildren() { return ::waitpid(-1, nullptr, WNOHANG) != -1; }
// Neither alive nor a zombie. The pid may belong to another process by now, which is not a child of
// ours.
bool IsReaped(int pid) { return ::waitpid(pid, nullptr, WNOHANG) == -1 && errno == ECHILD; }

class Pools : public testing::Test {
 protected:
  Pools() : lab_(TinyLlama()), bundle_(lab_.Bundle({.batch_size = 3})) {}

  std::vector<RolloutResponse> Alone(const std::vector<RolloutRequest>& requests) const {
    auto engine = Engine::Load({.bundle = bundle_});
    EXPECT_TRUE(engine.ok()) << Text(engine);
    auto generated = engine->Generate(requests);
    EXPECT_TRUE(generated.ok()) << Text(generated);
    return generated->responses;
  }

  const RolloutLab lab_;
  const std::string bundle_;
};

TEST_F(Pools, GiveWhatAnEngineHereGives) {
  const auto requests = SampleRequests(5, 2, SampledLong());
  const auto expected = Alone(requests);
  for (const int workers : {1, 3}) {
    WorkerPool pool = Start(Options(workers));
    const auto facts = pool.Load({.bundle = bundle_, .digest = true});
    ASSERT_TRUE(facts.ok()) << Text(facts);
    EXPECT_EQ(facts->batch_size, 3);
    EXPECT_EQ(facts->vocab, 64);
    EXPECT_THAT(facts->digest, HasSubstr("sha256:"));
    std::map<size_t, RolloutResponse> told;
    const auto generated = pool.Generate(
        requests,
        {.poll = nullptr, .on_response = [&](size_t i, const auto& one) { told[i] = one; }});
    ASSERT_TRUE(generated.ok()) << Text(generated);
    EXPECT_EQ(generated->responses, expected);
    EXPECT_EQ(told.size(), requests.size());
    EXPECT_EQ(generated->stats.response_tokens, 10 * 40);
    // The next step, with a surviving pool.
    ASSERT_TRUE(pool.Load({.bundle = bundle_}).ok());
    const auto again = pool.Generate(requests);
    ASSERT_TRUE(again.ok()) << Text(again);
    EXPECT_EQ(again->responses, expected);
  }
  EXPECT_FALSE(HasChildren());
}

// The second one is stopped before its request, so that it has not answered everything when it is
// killed, however busy the machine.
TEST_F(Pools, KilledWorkersAreStartedAgainWithTheSameResult) {
  const auto requests = SampleRequests(30, 2, SampledLong());
  const auto expected = Alone(requests);
  std::vector<std::string> warnings;
  WorkerPoolOptions options = Options(2);
  options.on_warning = [&](const std::string& text) { warnings.push_back(text); };
  WorkerPool pool = Start(options);
  ASSERT_TRUE(pool.Load({.bundle = bundle_}).ok());
  int told = 0;
  const std::vector<int> killed = pool.pids();
  ::kill(killed[1], SIGSTOP);
  GenerateHooks hooks;
  hooks.on_response = [&](size_t, const RolloutResponse&) {
    if (++told != 1) return;
    for (const int pid : killed) ::kill(pid, SIGKILL);
  };
  const auto generated = pool.Generate(requests, hooks);
  ASSERT_TRUE(generated.ok()) << Text(generated);
  EXPECT_EQ(generated->responses, expected);
  EXPECT_EQ(told, 60) << "each response once";
  ASSERT_GE(warnings.size(), 1u);
  EXPECT_THAT(warnings.front(), HasSubstr("killed by signal 9; it is restarted"));
  EXPECT_EQ(pool.restarts(), static_cast<int64_t>(warnings.size()));
  EXPECT_TRUE(IsReaped(killed[1]));
}

TEST_F(Pools, KilledBetweenTwoStepsIsNoLoss) {
  const auto requests = SampleRequests(2, 1, SampledLong());
  WorkerPool pool = Start(Options(1));
  ASSERT_TRUE(pool.Load({.bundle = bundle_}).ok());
  ::kill(pool.pids()[0], SIGKILL);
  const auto generated = pool.Generate(requests);
  ASSERT_TRUE(generated.ok()) << Text(generated);
  EXPECT_EQ(generated->responses, Alone(requests));
}

TEST_F(Pools, HungWorkersAreStartedAgain) {
  const auto requests = SampleRequests(4, 2, SampledLong());
  std::vector<std::string> warnings;
  WorkerPoolOptions options = Options(1);
  // A worker has to start and to be noticed within that time, on a busy machine too.
  options.silence_seconds = 3;
  options.on_warning = [&](const std::string& text) { warnings.push_back(text); };
  WorkerPool pool = Start(options);
  ASSERT_TRUE(pool.Load({.bundle = bundle_}).ok());
  ::kill(pool.pids()[0], SIGSTOP);
  const auto generated = pool.Generate(requests);
  ASSERT_TRUE(generated.ok()) << Text(generated);
  EXPECT_EQ(generated->responses, Alone(requests));
  ASSERT_GE(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("has said nothing for "));
}

TEST_F(Pools, RestartsAreBounded) {
  struct Case {
    std::vector<std::string> command;
    const char* said;
  };
  for (const Case& one :
       {Case{{"/bin/false"}, "is gone: it exited with 1; that is failure 4 of this call, 3"},
        Case{{"/bin/echo", "hello, I am a shell"}, "cannot be understood"}}) {
    WorkerPoolOptions options = Options(1);
    options.command = one.command;
    WorkerPool pool = Start(options);
    const auto facts = pool.Load({.bundle = bundle_});
    ASSERT_FALSE(facts.ok());
    EXPECT_EQ(facts.error().code(), Errc::kIo);
    EXPECT_THAT(facts.error().message(), HasSubstr(one.said));
  }
  EXPECT_FALSE(HasChildren());
}

TEST_F(Pools, AProgramThatIsNotThereIsNamed) {
  WorkerPoolOptions options = Options(1);
  options.command = {"/nowhere/worker"};
  const auto pool = WorkerPool::Start(options);
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.error().code(), Errc::kNotFound);
  EXPECT_EQ(pool.error().file(), "/nowhere/worker");
  EXPECT_FALSE(HasChildren());
}

TEST_F(Pools, ErrorsOfAnEngineArriveWhole) {
  WorkerPool pool = Start(Options(2));
  const auto refused = pool.Load({.bundle = bundle_, .neuron_override = {.batch_size = 64}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::kUnsupported);
  EXPECT_EQ(refused.error().file(), bundle_);
  EXPECT_THAT(refused.error().message(), HasSubstr("batch_size is 64, the bundle was made for 3"));
  EXPECT_THAT(refused.error().hint(), HasSubstr("export the bundle again"));
  const auto stale = pool.Load({.bundle = bundle_, .expect = {.serial = 9}});
  ASSERT_FALSE(stale.ok());
  EXPECT_EQ(stale.error().code(), Errc::kFindings);
  ASSERT_TRUE(pool.Load({.bundle = bundle_}).ok()) << "after an error a pool is of use";
  auto requests = SampleRequests(1, 1, SampledLong());
  requests[0].prompt.clear();
  const auto usage = pool.Generate(requests);
  ASSERT_FALSE(usage.ok());
  EXPECT_EQ(usage.error().code(), Errc::kUsage);
}

TEST_F(Pools, AnInterruptionEndsTheWorkersAtWork) {
  WorkerPool pool = Start(Options(2));
  ASSERT_TRUE(pool.Load({.bundle = bundle_}).ok());
  const std::vector<int> pids = pool.pids();
  const auto requests = SampleRequests(5, 2, SampledLong());
  const auto stopped = pool.Generate(
      requests, {.poll = []() -> Status { return Error(Errc::kInterrupted, "enough"); },
                 .on_response = nullptr});
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code(), Errc::kInterrupted);
  for (const int pid : pids) EXPECT_TRUE(IsReaped(pid));
  const auto generated = pool.Generate(requests);
  ASSERT_TRUE(generated.ok()) << Text(generated);
  EXPECT_EQ(generated->responses, Alone(requests));
}

std::vector<std::string> EnvironmentOf(int pid) {
  const std::string text = testing_util::ReadBytes("/proc/" + std::to_string(pid) + "/environ");
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size(); at = text.find('\0', at) + 1)
    out.push_back(text.substr(at, text.find('\0', at) - at));
  return out;
}

TEST_F(Pools, EnvironmentsOfTrainingAndRolloutStayApart) {
  ::setenv("NEURON_RT_VISIBLE_CORES", "0-15", 1);
  ::setenv("SECRET_TOKEN", "s3cret", 1);
  WorkerPoolOptions options = Options(2);
  options.environment = {"NEURON_COMPILED_ARTIFACTS=/bundles/a"};
  options.environment_of = {{"NEURON_RT_VISIBLE_CORES=16-23"}, {"NEURON_RT_VISIBLE_CORES=24-31"}};
  WorkerPool pool = Start(options);
  ASSERT_TRUE(pool.Load({.bundle = bundle_}).ok());
  const std::vector<std::string> first = EnvironmentOf(pool.pids()[0]);
  const std::vector<std::string> second = EnvironmentOf(pool.pids()[1]);
  EXPECT_THAT(first, Contains("NEURON_RT_VISIBLE_CORES=16-23"));
  EXPECT_THAT(second, Contains("NEURON_RT_VISIBLE_CORES=24-31"));
  EXPECT_THAT(second, Contains("NEURON_COMPILED_ARTIFACTS=/bundles/a"));
  EXPECT_THAT(second, Contains(HasSubstr("PATH=")));
  for (const auto& environment : {first, second}) {
    EXPECT_THAT(environment, Not(Contains(HasSubstr("SECRET_TOKEN"))));
    EXPECT_THAT(environment, Not(Contains("NEURON_RT_VISIBLE_CORES=0-15")));
  }
  EXPECT_STREQ(std::getenv("NEURON_RT_VISIBLE_CORES"), "0-15");
  EXPECT_EQ(std::getenv("NEURON_COMPILED_ARTIFACTS"), nullptr);
  ::unsetenv("NEURON_RT_VISIBLE_CORES");
  ::unsetenv("SECRET_TOKEN");
}

TEST_F(Pools, WorkersDieWithTheirTrainer) {
  int report[2];
  ASSERT_EQ(::pipe(report), 0);
  const pid_t trainer = ::fork();
  if (trainer == 0) {
    auto pool = WorkerPool::Start(Options(2));
    const std::vector<int> pids = pool.ok() ? pool->pids() : std::vector<int>{-1, -1};
    if (::write(report[1], pids.data(), sizeof(int) * 2) < 0) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  int pids[2] = {-1, -1};
  ASSERT_EQ(::read(report[0], pids, sizeof pids), static_cast<ssize_t>(sizeof pids));
  ASSERT_EQ(::waitpid(trainer, nullptr, 0), trainer);
  for (const int pid : pids) {
    ASSERT_GT(pid, 0);
    EXPECT_TRUE(HasEnded(pid)) << pid;
  }
  ::close(report[0]);
  ::close(report[1]);
}

TEST(SplitRequestsTest, KeepsSamplesTogetherAndPartsNearlyEqual) {
  const auto requests = SampleRequests(6, 4, {});
  EXPECT_EQ(SplitRequests(requests, 1), (std::vector<size_t>{0, 24}));
  EXPECT_EQ(SplitRequests(requests, 3), (std::vector<size_t>{0, 8, 16, 24}));
  EXPECT_EQ(SplitRequests(requests, 4), (std::vector<size_t>{0, 8, 12, 20, 24}));
  EXPECT_EQ(SplitRequests(SampleRequests(1, 3, {}), 2), (std::vector<size_t>{0, 3, 3}));
  EXPECT_EQ(SplitRequests({}, 2), (std::vector<size_t>{0, 0, 0}));
}

}  // namespace
}  // namespace nxdkit::trainer
