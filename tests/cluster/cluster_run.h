// PRIVATE to tests. The arithmetic example on two failing hosts, compared with an undisturbed run.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "tests/cluster/two_hosts.h"
#include "tests/lib/eventually.h"
#include "tests/tools/grpo_workshop.h"
#include "tests/tools/process.h"

namespace nxdkit::test {

class ClusterRun : public GrpoTrain {
 protected:
  static constexpr int kSteps = 40;
  static constexpr int kSaveFrequency = 5;
  // The seconds that a run may take to reach a point: all of it takes 5, or a minute where twenty
  // other programs want two processors.
  static constexpr double kToCome = 180;

  void SetUp() override {
    if (!hosts_.missing().empty()) GTEST_SKIP() << hosts_.missing();
    if (std::string(NXDKIT_MPI_PLUGIN).empty()) GTEST_SKIP() << "built without Open MPI";
    GrpoTrain::SetUp();
    // The reward depends on the response and takes a while to compute, so the run is still going
    // when a fault is injected.
    SetPace(0);
    workshop_.Write("reward.sh",
                    "cd \"$(dirname \"$0\")\"\n"
                    "while read -r line; do\n"
                    "  [ ! -e reward.fails ] || exit 3\n"
                    "  ((count++ % 512)) || sleep \"$(cat pace)\"\n"
                    "  echo \"{\\\"overall\\\": $((${#line} % 3))}\"\n"
                    "done\n");
  }
  // The pause of each step of a run, in seconds.
  void SetPace(double seconds) const {
    workshop_.Write("pace.new", fmt::format("{}", seconds));
    std::filesystem::rename(workshop_ / "pace.new", workshop_ / "pace");
  }

  // The words of a run on two machines with two ranks each, unless `more` changes that.
  Words Training(const std::string& run, const Words& more = {}) const {
    Words words = {"trainer.separate_rollout_workers=false",
                   "trainer.cores=2",
                   "trainer.nnodes=2",
                   "trainer.logger=[file]",
                   "trainer.save_limit=3",
                   fmt::format("trainer.max_steps={}", kSteps),
                   fmt::format("trainer.save_freq={}", kSaveFrequency),
                   "worker.reward.reward_function=exec:bash " + (workshop_ / "reward.sh")};
    words.insert(words.end(), more.begin(), more.end());
    return Command(run, words);
  }
  static Words Environment() {
    return {"NXDKIT_MPI_PLUGIN=" NXDKIT_MPI_PLUGIN,
            fmt::format("OMPI_MCA_btl_tcp_if_include={}", TwoHosts::kNetwork)};
  }

  std::string Checkpoint(const std::string& run, int step) const {
    return workshop_ / fmt::format("{}/global_step_{}", run, step);
  }
  bool ComesToStep(const std::string& run, int step) const {
    const std::string checkpoint = Checkpoint(run, step);
    return testing_util::Eventually(kToCome, [&] { return std::filesystem::exists(checkpoint); });
  }
  // The number of steps done, including those that no checkpoint has.
  int StepsDone(const std::string& run) const {
    std::ifstream log(workshop_ / (run + "/experiment_log.jsonl"));
    int done = 0;
    for (std::string line; std::getline(log, line);)
      done += line.find("\"grad_norm\"") != std::string::npos;
    return done;
  }
  bool HasDone(const std::string& run, int steps) const {
    return testing_util::Eventually(kToCome, [&] { return StepsDone(run) >= steps; });
  }
  // The processes of a run that hold ranks, on a host.
  size_t Trainers(const std::string& host, const std::string& run) const {
    size_t trainers = 0;
    for (const pid_t process : hosts_.Processes(host, workshop_ / run))
      trainers += Program(process) == "grpo-train";
    return trainers;
  }
  // Whether all processes of the run on a host end within this time.
  bool Ends(const std::string& host, const std::string& run, double seconds) const {
    return testing_util::Eventually(seconds, [&] { return Trainers(host, run) == 0; });
  }

  // The last checkpoint of the run equals, byte for byte, that of an undisturbed run on one
  // machine.
  void ExpectTheBytesOfAnUninterruptedRun(const std::string& run) const {
    static const Tree expected = Uninterrupted();
    const Tree found = ReadTree(Checkpoint(run, kSteps));
    EXPECT_GT(expected.size(), 15u);
    for (const auto& [name, bytes] : expected) {
      ASSERT_TRUE(found.contains(name)) << name;
      EXPECT_TRUE(found.at(name) == bytes) << name;
    }
  }
  void ExpectDone(const std::string& run) const {
    EXPECT_TRUE(std::filesystem::exists(workshop_ / (run + "/DONE")));
  }
  // For manual runs of this test.
  template <typename... T>
  static void Tell(fmt::format_string<T...> format, T&&... values) {
    fmt::print("[ MEASURED ] {}: {}\n",
               ::testing::UnitTest::GetInstance()->current_test_info()->name(),
               fmt::format(format, std::forward<T>(values)...));
  }

  const TwoHosts hosts_;
  static std::string Program(pid_t process) {
    std::ifstream file(fmt::format("/proc/{}/cmdline", process));
    std::string program;
    std::getline(file, program, '\0');
    return std::filesystem::path(program).filename();
  }

 private:
  Tree Uninterrupted() const {
    const ProcessResult alone =
        RunProcess(Training("alone", {"trainer.nnodes=1", "trainer.cores=4"}));
    EXPECT_EQ(alone.exit_code, 0) << alone.out << alone.err;
    return ReadTree(Checkpoint("alone", kSteps));
  }
};

}  // namespace nxdkit::test
