// The ranks of a mesh as threads of one process, and as processes of Open MPI on one machine and on
// two (network namespaces): the same bits; and a process that dies or hangs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>

#include "tests/cluster/two_hosts.h"
#include "tests/lib/eventually.h"
#include "tests/tools/convert_workshop.h"
#include "tests/tools/grpo_workshop.h"
#include "tests/tools/kill.h"
#include "tests/tools/mpi_words.h"
#include "tests/tools/process.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing_util::Eventually;

class Mpi : public ::testing::Test {
 public:
  void SetUp() override {
    if (const std::string missing = MpiMissing(); !missing.empty()) GTEST_SKIP() << missing;
  }
  static Words Probe(int tp, int dp, const Words& fault) {
    Words command = {NXDKIT_MESH_PROBE, kMpiPlugin, std::to_string(tp), std::to_string(dp)};
    command.insert(command.end(), fault.begin(), fault.end());
    return command;
  }
  static ProcessResult Launch(int processes, int tp, int dp, const Words& fault = {}) {
    return RunProcess(MpiWords(processes, Probe(tp, dp, fault)));
  }
};

TEST_F(Mpi, EveryEngineHasTheSameBits) {
  const struct {
    int processes, tp, dp;
  } cases[] = {{2, 1, 2}, {2, 2, 2}, {4, 2, 2}, {4, 1, 4}, {2, 2, 1}, {2, 1, 4}};
  for (const auto& [processes, tp, dp] : cases) {
    SCOPED_TRACE(fmt::format("{} processes, TP {} x DP {}", processes, tp, dp));
    const ProcessResult threads = RunProcess(Probe(tp, dp, {}));
    ASSERT_EQ(threads.exit_code, 0) << threads.err;
    EXPECT_THAT(threads.out, HasSubstr("step 4 norm 0x"));
    const ProcessResult launched = Launch(processes, tp, dp);
    ASSERT_EQ(launched.exit_code, 0) << launched.err;
    EXPECT_EQ(launched.out, threads.out);
  }
}

TEST_F(Mpi, TwoHostsHaveTheBitsOfOne) {
  const TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  for (const auto& [tp, dp] : {std::pair(1, 2), {2, 2}, {2, 1}}) {
    SCOPED_TRACE(fmt::format("TP {} x DP {}", tp, dp));
    const ProcessResult threads = RunProcess(Probe(tp, dp, {}));
    const ProcessResult both = RunProcess(hosts.OnBoth(Probe(tp, dp, {})));
    ASSERT_EQ(both.exit_code, 0) << both.out << both.err;
    EXPECT_EQ(both.out, threads.out);
  }
}

// Process 0 makes all calls, saves the state of all, and another model resumes from it.
TEST_F(Mpi, FollowersComeToTheBitsOfOneProcess) {
  const struct { int processes, tp, dp; } cases[] = {{2, 2, 2}, {4, 2, 2}, {2, 1, 4}, {2, 2, 1}};
  for (const auto& [processes, tp, dp] : cases) {
    SCOPED_TRACE(fmt::format("{} processes, TP {} x DP {}", processes, tp, dp));
    const ProcessResult alone = RunProcess(Probe(tp, dp, {"led"}));
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    EXPECT_THAT(alone.out, HasSubstr("restored norm 0x"));
    const ProcessResult led = Launch(processes, tp, dp, {"led"});
    ASSERT_EQ(led.exit_code, 0) << led.err;
    EXPECT_EQ(led.out, alone.out);
  }
}

// The arithmetic example on two machines, as far as one can be two.
class GrpoTrainMpi : public GrpoTrain {
 protected:
  void SetUp() override {
    if (const std::string missing = MpiMissing(); !missing.empty()) GTEST_SKIP() << missing;
    GrpoTrain::SetUp();
  }
  static ProcessResult LaunchTwo(const Words& words) { return RunProcess(MpiWords(2, words)); }
  // Every metric and every byte of the last checkpoint.
  void ExpectSameRuns(const std::string& run, const std::string& other) const {
    EXPECT_EQ(Steps(run), Steps(other));
    const std::string expected = workshop_ / (other + "/global_step_4");
    size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(expected)) {
      if (!entry.is_regular_file()) continue;
      const std::string path = entry.path().string();
      const std::string own = workshop_ / (run + "/global_step_4" + path.substr(expected.size()));
      EXPECT_TRUE(ReadFile(path) == ReadFile(own)) << path;
      ++files;
    }
    EXPECT_GT(files, 15u);
  }
  // The second host has an empty file system of its own, of this size, in place of the run "two".
  // Its contents at the end are listed in the file "there".
  Words Blind(Words command, const std::string& size) const {
    const std::string script = workshop_.Write(
        "blind.sh", fmt::format("[ \"$(hostname)\" = {1} ] || exec \"$@\"\n"
                                "mkdir -p {0}; mount -t tmpfs -o size={2} none {0} || exit 9\n"
                                "\"$@\"\ncode=$?\nfind {0} > {3}\nexit $code\n",
                                workshop_ / "two", TwoHosts::kHosts[1], size, workshop_ / "there"));
    command.insert(command.begin(), {"bash", script});
    return command;
  }
  Words Words2(const std::string& run, int64_t cores, int64_t nodes, const Words& more) const {
    Words words = {"trainer.separate_rollout_workers=false", "algorithm.disable_kl=false",
                   fmt::format("trainer.cores={}", cores), fmt::format("trainer.nnodes={}", nodes)};
    words.insert(words.end(), more.begin(), more.end());
    return Command(run, words);
  }
};

TEST_F(GrpoTrainMpi, TwoMachinesWriteWhatOneWrites) {
  const ProcessResult one = RunProcess(Words2("one", 4, 1, {"trainer.max_steps=4"}));
  ASSERT_EQ(one.exit_code, 0) << one.out;
  for (const char* steps : {"trainer.max_steps=2", "trainer.max_steps=4"}) {  // and resumes
    const ProcessResult two = LaunchTwo(Words2("two", 2, 2, {steps}));
    ASSERT_EQ(two.exit_code, 0) << two.out << two.err;
  }
  ExpectSameRuns("two", "one");
}

// A tensor parallel group across two machines.
TEST_F(GrpoTrainMpi, AGroupThatIsSpreadWritesTheSame) {
  const Words group = {"worker.actor.tensor_parallel_size=4", "trainer.max_steps=4",
                       "worker.rollout.tensor_parallel_size=2"};
  const ProcessResult one = RunProcess(Words2("one", 4, 1, group));
  ASSERT_EQ(one.exit_code, 0) << one.out << one.err;
  const ProcessResult two = LaunchTwo(Words2("two", 2, 2, group));
  ASSERT_EQ(two.exit_code, 0) << two.out << two.err;
  EXPECT_THAT(two.err, HasSubstr("machine 1: process 1, 2 threads, ranks 2 to 3 of the mesh"));
  ExpectSameRuns("two", "one");
}

// Machine 0 trains, machine 1 generates: the cores are assigned in that order.
TEST_F(GrpoTrainMpi, RolloutOnTheOtherMachineWritesTheSame) {
  const Words apart = {"trainer.separate_rollout_workers=true", "trainer.max_steps=4"};
  const ProcessResult one = RunProcess(Words2("one", 4, 1, apart));
  ASSERT_EQ(one.exit_code, 0) << one.out;
  const ProcessResult two = LaunchTwo(Words2("two", 2, 2, apart));
  ASSERT_EQ(two.exit_code, 0) << two.out << two.err;
  EXPECT_THAT(two.err, HasSubstr("machine 1: process 1; rollout worker 0\n"));
  ExpectSameRuns("two", "one");
}

// Machine 0 trains and has one of three workers.
TEST_F(GrpoTrainMpi, AMachineThatDoesBothWritesTheSame) {
  const Words both = {"trainer.separate_rollout_workers=true",
                      "trainer.training_core_ratio=0.25",
                      "data.rollout_batch_size=33",
                      "worker.actor.global_batch_size=33",
                      "worker.actor.micro_batch_size_per_device_for_update=264",
                      "worker.actor.micro_batch_size_per_device_for_experience=528",
                      "trainer.max_steps=4"};
  const ProcessResult one = RunProcess(Words2("one", 8, 1, both));
  ASSERT_EQ(one.exit_code, 0) << one.out;
  const ProcessResult two = LaunchTwo(Words2("two", 4, 2, both));
  ASSERT_EQ(two.exit_code, 0) << two.out << two.err;
  EXPECT_THAT(two.err, HasSubstr("of DP rank 0; rollout worker 0; the loop and the rewards\n"
                                 "machine 1: process 1; rollout workers 1 to 2\n"));
  ExpectSameRuns("two", "one");
}

// The other machine sees nothing that is written here: a folder of its own covers that of the run.
TEST_F(GrpoTrainMpi, AMachineThatDoesNotSeeTheRunGetsTheWeights) {
  const TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  const Words apart = {"trainer.separate_rollout_workers=true", "trainer.max_steps=4"};
  ASSERT_EQ(RunProcess(Words2("one", 4, 1, apart)).exit_code, 0);
  const ProcessResult two = RunProcess(hosts.OnBoth(Blind(Words2("two", 2, 2, apart), "8m")));
  ASSERT_EQ(two.exit_code, 0) << two.out << two.err;
  EXPECT_THAT(two.err, HasSubstr(fmt::format("machine 1 does not see {}: the weights of every "
                                             "step are sent to it",
                                             workshop_ / "two")));
  ExpectSameRuns("two", "one");
  EXPECT_THAT(ReadFile(workshop_ / "two/experiment_log.jsonl"), HasSubstr("\"sync_send\""));
  for (const char* left : {"rollout_bundle.delta", "rollout_bundle.sent.tar"})
    EXPECT_FALSE(std::filesystem::exists(workshop_ / (std::string("two/") + left))) << left;
  const std::string there = ReadFile(workshop_ / "there");
  EXPECT_THAT(there, HasSubstr("two/rollout_bundle/"));
  EXPECT_THAT(there, Not(HasSubstr(".sent")));
}

// A machine that only generates needs no checkpoint; the training ones write it.
TEST_F(GrpoTrainMpi, ARunThatAMachineDoesNotSeeGoesOn) {
  const TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  const Words apart = {"trainer.separate_rollout_workers=true", "trainer.max_steps=4"};
  ASSERT_EQ(RunProcess(Words2("one", 4, 1, apart)).exit_code, 0);
  for (const char* steps : {"2", "4"}) {
    Words words = Words2("two", 2, 2, apart);
    words.push_back(std::string("trainer.max_steps=") + steps);
    const ProcessResult two = RunProcess(hosts.OnBoth(Blind(words, "8m")));
    ASSERT_EQ(two.exit_code, 0) << two.out << two.err;
  }
  ExpectSameRuns("two", "one");
}

// The other machine trains, and there is not enough room for its share of a checkpoint.
TEST_F(GrpoTrainMpi, AFullDiskUnderAShareOfACheckpointIsTold) {
  const TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  Words limited = Words2("two", 2, 2, {"trainer.max_steps=2"});
  const std::string script = workshop_.Write(
      "limit.sh",
      fmt::format("[ \"$(hostname)\" != {} ] || ulimit -f 40\nexec \"$@\"\n", TwoHosts::kHosts[1]));
  limited.insert(limited.begin(), {"bash", script});
  const ProcessResult two = RunProcess(hosts.OnBoth(limited));
  EXPECT_EQ(two.exit_code, 5) << two.out << two.err;
  EXPECT_THAT(two.err, HasSubstr("process 1: "));
  EXPECT_THAT(two.err, HasSubstr("File too large"));
  EXPECT_FALSE(std::filesystem::exists(workshop_ / "two/global_step_2"));
}

TEST_F(GrpoTrainMpi, AFullDiskOfTheOtherMachineIsToldAndNotTriedAgain) {
  const TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  const Words words =
      Words2("two", 2, 2, {"trainer.separate_rollout_workers=true", "trainer.max_steps=4"});
  const ProcessResult two = RunProcess(hosts.OnBoth(Blind(words, "64k")));
  EXPECT_EQ(two.exit_code, 5) << two.err;
  EXPECT_THAT(two.err, HasSubstr("process 1: "));
  EXPECT_THAT(two.err, HasSubstr("No space left on device"));
  EXPECT_FALSE(std::filesystem::exists(workshop_ / "two/DONE"));
  EXPECT_THAT(ReadFile(workshop_ / "there"), Not(HasSubstr(".sent")));
}

TEST_F(GrpoTrainMpi, AWorkerOfTheOtherMachineThatDiesIsStartedAgain) {
  const Words apart = {"trainer.separate_rollout_workers=true", "trainer.max_steps=60"};
  ASSERT_EQ(RunProcess(Words2("one", 4, 1, apart)).exit_code, 0);
  const pid_t job = StartProcess(MpiWords(2, Words2("two", 2, 2, apart)));
  const std::string log = workshop_ / "two/running_log/rollout_worker_0.log";
  ASSERT_TRUE(WaitFor(log));
  const std::string begins = "rollout worker begins, process ";
  ASSERT_TRUE(Eventually(30, [&] { return ReadFile(log).find(begins) != std::string::npos; }));
  const std::string text = ReadFile(log);
  ASSERT_EQ(::kill(std::stoi(text.substr(text.find(begins) + begins.size())), SIGKILL), 0);
  EXPECT_EQ(WaitProcess(job), 0);
  EXPECT_THAT(ReadFile(workshop_ / "two/running_log/trainer.log"),
              HasSubstr("it was killed by signal 9; it is restarted"));
  EXPECT_EQ(Steps("two"), Steps("one"));
}

TEST_F(GrpoTrainMpi, AKilledMachineEndsTheJobAndTheSameCommandGoesOn) {
  const TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  const Words steps = {"trainer.max_steps=60", "trainer.save_freq=10"};
  ASSERT_EQ(RunProcess(Words2("one", 4, 1, steps)).exit_code, 0);
  const Words command = hosts.OnBoth(Words2("two", 2, 2, steps));
  const pid_t job = StartProcess(command);
  ASSERT_TRUE(WaitFor(workshop_ / "two/global_step_10"));
  hosts.Kill(TwoHosts::kHosts[1]);
  EXPECT_NE(WaitProcess(job), 0);
  EXPECT_FALSE(std::filesystem::exists(workshop_ / "two/global_step_60"));
  const ProcessResult rest = RunProcess(command);
  ASSERT_EQ(rest.exit_code, 0) << rest.out << rest.err;
  EXPECT_THAT(rest.err, HasSubstr("resumed from "));
  for (const char* file : {"actor/model/dp_rank_00_tp_rank_01_pp_rank_00.pt",
                           "actor/optim/dp_rank_01_tp_rank_00_pp_rank_00.pt"})
    EXPECT_TRUE(ReadFile(workshop_ / (std::string("two/global_step_60/") + file)) ==
                ReadFile(workshop_ / (std::string("one/global_step_60/") + file)))
        << file;
}

TEST_F(GrpoTrainMpi, AnotherNumberOfMachinesIsResumed) {
  const Words first = Words2("run", 2, 2, {"trainer.max_steps=2"});
  ASSERT_EQ(LaunchTwo(first).exit_code, 0);
  const ProcessResult rest = RunProcess(Words2("run", 2, 1, {"trainer.max_steps=3"}));
  ASSERT_EQ(rest.exit_code, 0) << rest.out;
  EXPECT_THAT(rest.err, HasSubstr("the checkpoint is from TP 2 x DP 2, this run is TP 2 x DP 1"));
  EXPECT_EQ(Steps("run").size(), 3u);
}

TEST_F(GrpoTrainMpi, AsManyProcessesAsMachines) {
  const ProcessResult alone = RunProcess(Words2("run", 2, 2, {"trainer.max_steps=1"}));
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.out, HasSubstr("1 processes were started for 2 machines"));
  const ProcessResult three = LaunchTwo(Words2("run", 2, 1, {"trainer.max_steps=1"}));
  EXPECT_EQ(three.exit_code, 2);
  EXPECT_THAT(three.out, HasSubstr("2 processes were started for 1 machines"));
  const ProcessResult shown = LaunchTwo(Words2("run", 2, 2, {"--dry-run"}));
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
}

// Its library does not find the others, and each process would take itself for the first.
TEST_F(GrpoTrainMpi, ALauncherOfAnotherMpiIsTold) {
  Words words = MpiEnvironment();
  words.insert(words.end(), {"PMI_SIZE=2", "PMI_RANK=0"});
  const Words run = Words2("run", 2, 2, {"trainer.max_steps=1"});
  words.insert(words.end(), run.begin(), run.end());
  const ProcessResult alone = RunProcess(words);
  EXPECT_EQ(alone.exit_code, 4) << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("has started 2 processes, but this MPI knows 1"));
}

TEST_F(Mpi, RanksThatDoNotDivideAreRefused) {
  const ProcessResult refused = Launch(2, 1, 3);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("3 ranks cannot be divided over 2 processes"));
}

TEST_F(Mpi, AProcessThatDiesEndsTheOthers) {
  const ProcessResult dead = Launch(2, 1, 2, {"die", "1"});
  EXPECT_EQ(dead.exit_code, 137) << dead.err;
  EXPECT_THAT(dead.out, Not(HasSubstr("step 3")));
}

TEST_F(Mpi, AProcessThatHangsIsToldOfByThoseThatWait) {
  const auto begin = std::chrono::steady_clock::now();
  const ProcessResult hung = Launch(2, 1, 2, {"hang", "1"});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(hung.exit_code, 75) << hung.err;
  EXPECT_THAT(hung.err, HasSubstr("process 0: process 1 has not been heard of for 4 s"));
  EXPECT_LT(took.count(), 60);
}

}  // namespace
}  // namespace nxdkit::test
