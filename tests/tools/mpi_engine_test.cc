// grpo-train on two machines with engines of another program: each machine has servers of its own,
// started by the run's process on it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>

#include "tests/cluster/two_hosts.h"
#include "tests/lib/eventually.h"
#include "tests/lib/processes.h"
#include "tests/tools/grpo_peer.h"
#include "tests/tools/kill.h"
#include "tests/tools/mpi_words.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing_util::Eventually;

class GrpoEngineMpi : public GrpoOnPeer {
 protected:
  void SetUp() override {
    if (const std::string missing = MpiMissing(); !missing.empty()) GTEST_SKIP() << missing;
    GrpoOnPeer::SetUp();
  }
  // Two workers, and two training ranks: on one machine, or on two.
  Words Words2(const std::string& run, int64_t cores, int64_t nodes, bool separate,
               const std::string& faults) const {
    return Command(run,
                   OnPeer(faults, {fmt::format("trainer.separate_rollout_workers={}", separate),
                                   fmt::format("trainer.cores={}", cores),
                                   fmt::format("trainer.nnodes={}", nodes),
                                   "worker.rollout.servers=" + std::string(separate ? "null" : "2"),
                                   "trainer.max_steps=3", "worker.rollout.max_log_prob_gap=100"}));
  }
  int64_t ProvedSyncs(const std::string& run) const {
    std::ifstream log(workshop_ / (run + "/experiment_log.jsonl"));
    int64_t syncs = 0;
    for (std::string line; std::getline(log, line);) {
      const Json json = Json::parse(line);
      if (!json.contains("sync")) continue;
      ++syncs;
      EXPECT_EQ(json["sync"]["proved"], 2 * 19);  // by both servers
    }
    return syncs;
  }
};

TEST_F(GrpoEngineMpi, TwoMachinesWriteWhatOneWrites) {
  for (const bool separate : {false, true}) {
    SCOPED_TRACE(separate ? "machine 1 generates" : "both machines do both");
    const std::string one = fmt::format("one-{}", separate), two = fmt::format("two-{}", separate);
    const ProcessResult alone = RunProcess(Words2(one, separate ? 4 : 2, 1, separate, ""));
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    const ProcessResult both =
        RunProcess(MpiWords(2, Words2(two, separate ? 2 : 1, 2, separate, "")));
    ASSERT_EQ(both.exit_code, 0) << both.out << both.err;
    EXPECT_THAT(both.err, HasSubstr(separate ? "machine 1: process 1; rollout workers 0 to 1\n"
                                             : "of DP rank 1; rollout worker 1\n"));
    EXPECT_EQ(ProvedSyncs(two), 3);
    EXPECT_EQ(Steps(two), Steps(one));
    EXPECT_EQ(Steps(two).size(), 3u);
  }
}

TEST_F(GrpoEngineMpi, OneThatDiesOnTheOtherMachineIsStartedAgain) {
  const ProcessResult result =
      RunProcess(MpiWords(2, Words2("run", 2, 2, true, " dies-at 5 once " + (workshop_ / "once"))));
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("has an engine that failed"));
  EXPECT_EQ(Steps("run").size(), 3u);
}

// However a process of the run ends: killed, with its servers at work, or with all others by a
// signal.
TEST_F(GrpoEngineMpi, NothingIsLeftOfTheServersOfAMachine) {
  const TwoHosts hosts;
  if (!hosts.missing().empty()) GTEST_SKIP() << hosts.missing();
  for (const int signal : {SIGKILL, SIGTERM}) {
    SCOPED_TRACE(signal);
    const std::string run = fmt::format("run-{}", signal), hangs = workshop_ / (run + ".hangs");
    const pid_t job = StartProcess(hosts.OnBoth(
        Words2(run, 2, 2, true, fmt::format(" hangs-at /inference/v1/generate {}", hangs))));
    ASSERT_TRUE(WaitFor(hangs));
    const std::string& host = TwoHosts::kHosts[1];
    ASSERT_FALSE(hosts.Processes(host, hangs).empty());
    const std::vector<pid_t> follower =
        hosts.Processes(host, "save_checkpoint_path=" + (workshop_ / run));
    ASSERT_FALSE(follower.empty());
    const auto begin = std::chrono::steady_clock::now();
    ::kill(follower.front(), signal);
    EXPECT_NE(WaitProcess(job), 0);
    // Less than the grace period of a server that does not notice.
    EXPECT_TRUE(Eventually(30, [&] { return hosts.Processes(host, hangs).empty(); }));
    EXPECT_TRUE(Eventually(30, [&] { return hosts.Processes(host, "grpo-train").empty(); }));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40));
  }
}

}  // namespace
}  // namespace nxdkit::test
