// grpo-train under mpirun on two hosts: the behaviour of a run when a process, a daemon or the wire
// fails. The job ends on both hosts, and nothing restarts it.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/cluster/cluster_run.h"
#include "tests/tools/kill.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_util::Eventually;
using testing_util::Stopwatch;

constexpr const char* kFirst = TwoHosts::kHosts[0];
constexpr const char* kSecond = TwoHosts::kHosts[1];

class MpirunTrain : public ClusterRun {
 protected:
  // Longer than mpirun takes to notice a lost host.
  static constexpr int kPeerTimeout = 15;

  // The command on both hosts, with its output in a file.
  Words Launch(double pace, const Words& more = {},
               const std::string& options = TwoHosts::kKeepalives, int seconds = 300) const {
    SetPace(pace);
    Words command = {"env"};
    for (const std::string& variable : environment_) command.push_back(variable);
    Words training = Training("run", {fmt::format("trainer.peer_timeout={}", kPeerTimeout)});
    training.insert(training.end(), more.begin(), more.end());
    command.insert(command.end(), training.begin(), training.end());
    Words words = hosts_.OnBoth(command, options, seconds);
    words.back() += " > " + log_ + " 2>&1";
    return words;
  }
  std::string Log() const { return ReadFile(log_); }
  void ExpectNothingIsLeft(double seconds) const {
    for (const char* host : {kFirst, kSecond})
      EXPECT_TRUE(Eventually(seconds, [&] { return hosts_.Processes(host).empty(); })) << host;
  }
  // The same command again, or one with other options.
  void ExpectTheRestComesToTheSameBytes(const Words& command) const {
    const ProcessResult rest = RunProcess(command);
    ASSERT_EQ(rest.exit_code, 0) << rest.err << Log();
    ExpectDone("run");
    ExpectTheBytesOfAnUninterruptedRun("run");
  }
  const std::string log_ = workshop_ / "log";
  Words environment_ = Environment();
};

TEST_F(MpirunTrain, AProcessIsKilled) {
  const pid_t job = StartProcess(Launch(0.1));
  ASSERT_TRUE(ComesToStep("run", 10));
  const Stopwatch since;
  hosts_.Kill(kSecond, "trainer.nnodes");
  EXPECT_EQ(WaitProcess(job), 137);
  Tell("mpirun has ended after {:.1f} s", since.seconds());
  EXPECT_LT(since.seconds(), 15);
  ExpectNothingIsLeft(5);
  ExpectTheRestComesToTheSameBytes(Launch(0));
}

// On one machine, with all ranks: the same mesh, and therefore the same bytes.
TEST_F(MpirunTrain, WhatIsLeftOfTwoMachinesGoesOn) {
  const pid_t job = StartProcess(Launch(0.1));
  ASSERT_TRUE(ComesToStep("run", 10));
  hosts_.Kill(kSecond);
  EXPECT_NE(WaitProcess(job), 0);
  ExpectNothingIsLeft(kPeerTimeout + 10);  // mpirun may end before those on the first host
  SetPace(0);
  ExpectTheRestComesToTheSameBytes(Training("run", {"trainer.nnodes=1", "trainer.cores=4"}));
}

TEST_F(MpirunTrain, TheOtherDaemonIsKilled) {
  const pid_t job = StartProcess(Launch(0.1));
  ASSERT_TRUE(ComesToStep("run", 10));
  const Stopwatch since;
  hosts_.Kill(kSecond, "orted");
  const int code = WaitProcess(job);
  EXPECT_NE(code, 0);
  Tell("mpirun has ended with {} after {:.1f} s", code, since.seconds());
  EXPECT_LT(since.seconds(), kPeerTimeout + 15);
  EXPECT_THAT(Log(), HasSubstr("ORTE has lost communication with a remote daemon"));
  ExpectNothingIsLeft(kPeerTimeout + 10);
  Tell("nothing is left after {:.1f} s", since.seconds());
}

// The launcher has to be the first to notice: after 8 s, the run would after 15.
TEST_F(MpirunTrain, SlowTheWireIsCutAndMpirunIsFirst) {
  const pid_t job = StartProcess(Launch(0.1));
  ASSERT_TRUE(ComesToStep("run", 10));
  const Stopwatch since;
  hosts_.CutWire();
  const int code = WaitProcess(job);
  EXPECT_NE(code, 0);
  Tell("mpirun has ended with {} after {:.1f} s", code, since.seconds());
  EXPECT_LT(since.seconds(), kPeerTimeout);
  ExpectNothingIsLeft(kPeerTimeout + 15);
  Tell("nothing is left after {:.1f} s", since.seconds());
  hosts_.HealWire();
  ExpectTheRestComesToTheSameBytes(Launch(0));
}

// mpirun would notice after eight minutes, and hangs when it is told to end: `timeout` kills it.
// The processes of the run do not depend on that.
TEST_F(MpirunTrain, SlowTheWireIsCutWithoutKeepalives) {
  const pid_t job = StartProcess(Launch(0.1, {}, ""));
  ASSERT_TRUE(ComesToStep("run", 10));
  const Stopwatch since;
  hosts_.CutWire();
  for (const char* host : {kFirst, kSecond})
    EXPECT_TRUE(Ends(host, "run", kPeerTimeout + 15)) << host;
  Tell("the processes of the run are gone after {:.1f} s", since.seconds());
  // mpirun forwards their output.
  EXPECT_TRUE(Eventually(20, [&] {
    return Log().find("process 0: process 1 has not been heard of for 15 s") != std::string::npos;
  })) << Log();
  for (const pid_t process : hosts_.Processes(kFirst, "mpirun"))
    if (Program(process) == "timeout") kill(process, SIGTERM);
  const int code = WaitProcess(job);
  EXPECT_NE(code, 0);
  Tell("mpirun has ended with {} after {:.1f} s", code, since.seconds());
}

// As on a file system without locks, when Slurm has given up a node that still works.
TEST_F(MpirunTrain, OfTwoAttemptsTheOlderPublishesNothing) {
  const pid_t older = StartProcess(Launch(0.2, {"trainer.save_freq=20"}));
  ASSERT_TRUE(HasDone("run", 3));
  const std::string attempts = workshop_ / "run/attempts";
  ASSERT_TRUE(fs::exists(attempts + "/1"));
  workshop_.Write("run/attempts/2", R"({"host": "hostC", "process": 17, "job": "4711"})");
  EXPECT_EQ(WaitProcess(older), 5);
  EXPECT_THAT(Log(), AllOf(HasSubstr("attempt 2"), HasSubstr("hostC")));
  EXPECT_FALSE(fs::exists(Checkpoint("run", 20)));
  ExpectNothingIsLeft(15);
  ExpectTheRestComesToTheSameBytes(Launch(0));
}

// On a file system with locks, the second one does not even begin.
TEST_F(MpirunTrain, TheSecondOfTwoRunsIsRefused) {
  const pid_t first = StartProcess(Launch(0.2));
  ASSERT_TRUE(ComesToStep("run", 5));
  const ProcessResult second = RunProcess(Training("run", {"trainer.nnodes=1", "trainer.cores=4"}));
  EXPECT_EQ(second.exit_code, 5) << second.err;
  EXPECT_EQ(WaitProcess(first), 0) << Log();
  ExpectDone("run");
  ExpectTheBytesOfAnUninterruptedRun("run");
}

// Stopped, as by a debugger or a swapping machine: it does not answer, and its connections stay
// open.
TEST_F(MpirunTrain, AProcessIsStopped) {
  const pid_t job = StartProcess(Launch(0.1, {"trainer.peer_timeout=5"}));
  ASSERT_TRUE(ComesToStep("run", 10));
  const Stopwatch since;
  for (const pid_t process : hosts_.Processes(kSecond, "trainer.nnodes")) kill(process, SIGSTOP);
  EXPECT_EQ(WaitProcess(job), 75);
  Tell("mpirun has ended after {:.1f} s", since.seconds());
  EXPECT_LT(since.seconds(), 20);
  EXPECT_THAT(Log(), HasSubstr("process 0: process 1 has not been heard of for 5 s"));
  ExpectNothingIsLeft(10);
}

// SIGTERM to a following process ends the run as if the first one had received it.
TEST_F(MpirunTrain, AProcessIsToldToEnd) {
  const pid_t job = StartProcess(Launch(0.1, {"trainer.save_freq=50"}));
  ASSERT_TRUE(HasDone("run", 3));
  for (const pid_t process : hosts_.Processes(kSecond, "trainer.nnodes")) kill(process, SIGTERM);
  EXPECT_EQ(WaitProcess(job), 143);
  EXPECT_THAT(Log(), HasSubstr("is saved: the same command continues from it"));
  ExpectNothingIsLeft(15);
  ExpectTheRestComesToTheSameBytes(Launch(0));
}

// VmHWM, the peak memory of a process in MiB: its current memory depends on the point in the step.
double PeakMib(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string word; status >> word;)
    if (double kilobytes = 0; word == "VmHWM:" && status >> kilobytes) return kilobytes / 1024;
  return 0;
}

TEST_F(MpirunTrain, SlowMemoryIsFlatOnBothHostsOver200Steps) {
  // Each thread would take memory from an arena of its own, as many as happen to run at once.
  environment_.push_back("MALLOC_ARENA_MAX=1");
  const pid_t job = StartProcess(
      Launch(0, {"trainer.max_steps=220", "trainer.save_freq=20"}, TwoHosts::kKeepalives, 500));
  // The peaks of the process of each host that holds ranks, when so many steps are done.
  std::map<std::string, double> peaks;
  const auto peaks_after = [&](int steps) {
    EXPECT_TRUE(Eventually(400, [&] {
      for (const char* host : {kFirst, kSecond})
        for (const pid_t process : hosts_.Processes(host, workshop_ / "run"))
          if (Program(process) == "grpo-train")
            peaks[host] = std::max(peaks[host], PeakMib(process));
      return StepsDone("run") >= steps;
    })) << Log();
    return peaks;
  };
  const std::map<std::string, double> early = peaks_after(20);
  for (const auto& [host, late] : peaks_after(200)) {
    EXPECT_GT(early.at(host), 10) << host;
    Tell("{}: {:.1f} MiB after 20 steps, {:.1f} after 200", host, early.at(host), late);
    // Open MPI's lists of buffers take 0 to 7 of that, and grow for a while; a model's gradients in
    // every step would be over 200.
    EXPECT_LT(late - early.at(host), 12) << host;
  }
  EXPECT_EQ(WaitProcess(job), 0) << Log();
}

}  // namespace
}  // namespace nxdkit::test
