// grpo-train under Slurm, by the batch file that users copy: the behaviour of a run when a process,
// a node, the wire or Slurm itself fails. Each time it resumes by itself, to the same bytes.
#include <signal.h>

#include <filesystem>

#include "tests/cluster/cluster_run.h"
#include "tests/cluster/slurm_cluster.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing_util::Eventually;
using testing_util::Stopwatch;

constexpr const char* kA = TwoHosts::kHosts[0];
constexpr const char* kB = TwoHosts::kHosts[1];

class SlurmTrain : public ClusterRun {
 protected:
  // Before Slurm gives a node up, as the trainer's README recommends.
  static constexpr int kPeerTimeout = 6;
  static constexpr int kSlack = 20;  // seconds that a busy machine may add

  void SetUp() override {
    if (!slurm_.missing().empty()) GTEST_SKIP() << slurm_.missing();
    ClusterRun::SetUp();
  }
  void TearDown() override {
    if (HasFailure() && fs::exists(log_)) fmt::print("{}\n", Log());
  }

  std::string Start(double pace, const Words& more = {}) const {
    SetPace(pace);
    Words words = {"--nodes=2", NXDKIT_SOURCE_DIR "/tools/deploy/train.sbatch", workshop_ / "run"};
    Words training = Training("run", {fmt::format("trainer.peer_timeout={}", kPeerTimeout)});
    training.insert(training.end(), more.begin(), more.end());
    words.insert(words.end(), training.begin() + 1, training.end());
    Words environment = Environment();
    environment.push_back("PATH=" NXDKIT_TOOLS ":" + std::string(getenv("PATH")));
    return slurm_.Submit(words, environment, log_);
  }
  std::string Log() const { return ReadFile(log_); }
  bool Says(const std::string& text, double seconds) const {
    return Eventually(seconds, [&] { return Log().find(text) != std::string::npos; });
  }
  // Does not count restarts that Open MPI causes: about once in a hundred starts by srun it crashes
  // in MPI_Init, where a message of the other process finds no callback yet (4.1.4, btl tcp). The
  // job starts again by itself.
  int Restarts(const std::string& job) const {
    const std::string log = Log();
    int crashes = 0;
    const std::string crash = "the step has ended with 139: requeued";
    for (size_t at = 0; (at = log.find(crash, at)) != std::string::npos; ++at) ++crashes;
    return slurm_.RestartsOf(job) - crashes;
  }
  // The newest checkpoint of the run.
  int Saved() const {
    int newest = 0;
    for (const auto& entry : fs::directory_iterator(workshop_ / "run")) {
      const std::string name = entry.path().filename();
      if (name.starts_with("global_step_") && name.find_first_not_of("0123456789", 12) == name.npos)
        newest = std::max(newest, std::stoi(name.substr(12)));
    }
    return newest;
  }
  // The job, after a loss, ends everywhere, starts again, resumes from the last checkpoint, and
  // completes. A node that comes back at once may get the end of the old step late, and end a new
  // one with it: then the job starts once more.
  void ExpectGoesOn(const std::string& job, const Stopwatch& since, double seconds,
                    int most_restarts = 1) const {
    SetPace(0);
    EXPECT_TRUE(Says("resumed from ", seconds)) << "it does not go on";
    const double resumed = since.seconds();
    ASSERT_TRUE(slurm_.ComesTo(job, "COMPLETED", kToCome)) << slurm_.StateOf(job);
    Tell("goes on after {:.1f} s, is done after {:.1f} s", resumed, since.seconds());
    EXPECT_GE(Restarts(job), 1);
    EXPECT_LE(Restarts(job), most_restarts);
    EXPECT_EQ(slurm_.Job(job)["ExitCode"], "0:0");
    EXPECT_TRUE(Ends(kA, "run", kSlack));
    EXPECT_TRUE(Ends(kB, "run", kSlack));
    ExpectDone("run");
    ExpectTheBytesOfAnUninterruptedRun("run");
  }

  const SlurmCluster slurm_{hosts_};
  const std::string log_ = workshop_ / "job.log";
};

TEST_F(SlurmTrain, RunsToItsEnd) {
  const std::string job = Start(0);
  ASSERT_TRUE(slurm_.ComesTo(job, "COMPLETED", kToCome)) << slurm_.StateOf(job);
  EXPECT_EQ(Restarts(job), 0);
  ExpectDone("run");
  ExpectTheBytesOfAnUninterruptedRun("run");
}

TEST_F(SlurmTrain, AWrongCommandIsNotRequeued) {
  const std::string job = Start(0, {"trainer.max_step=5"});
  ASSERT_TRUE(slurm_.ComesTo(job, "FAILED", 30)) << slurm_.StateOf(job);
  EXPECT_EQ(slurm_.Job(job)["ExitCode"], "2:0");
  EXPECT_EQ(Restarts(job), 0);
}

// The job's exit code is that of the process that failed, whatever its end does to the others.
TEST_F(SlurmTrain, AnErrorOfTheRunIsNotRequeued) {
  const std::string job = Start(0.1, {"trainer.save_freq=50"});
  ASSERT_TRUE(HasDone("run", 3));
  workshop_.Write("reward.fails", "");
  ASSERT_TRUE(slurm_.ComesTo(job, "FAILED", 30)) << slurm_.StateOf(job);
  EXPECT_EQ(slurm_.Job(job)["ExitCode"], "5:0");
  EXPECT_EQ(Restarts(job), 0);
  EXPECT_TRUE(Ends(kB, "run", kSlack));
  EXPECT_GE(Saved(), 3) << "the last whole step is kept";
}

TEST_F(SlurmTrain, AProcessIsKilled) {
  const std::string job = Start(0.1);
  ASSERT_TRUE(ComesToStep("run", 10));
  const Stopwatch since;
  hosts_.Kill(kB, "trainer.nnodes");
  EXPECT_TRUE(Ends(kA, "run", kPeerTimeout + kSlack));
  Tell("the other process is gone after {:.1f} s", since.seconds());
  EXPECT_TRUE(Says("hostB: task 1: Killed", kSlack));
  EXPECT_TRUE(Says("the step has ended with 137: requeued", kSlack));
  ExpectGoesOn(job, since, 60);
}

// As Slurm's --signal=B:USR1@600 does it.
TEST_F(SlurmTrain, TheTimeLimitComes) {
  const std::string job = Start(0.1, {"trainer.save_freq=50"});
  ASSERT_TRUE(HasDone("run", 10));
  const Stopwatch since;
  slurm_.Run("scancel --batch --signal=USR1 " + job);
  EXPECT_TRUE(Ends(kA, "run", 10));
  Tell("process 0 has saved and ended after {:.1f} s", since.seconds());
  EXPECT_TRUE(Ends(kB, "run", 15));
  Tell("both have ended after {:.1f} s", since.seconds());
  EXPECT_TRUE(Says("the step has ended with 143: requeued", kSlack));
  const int saved = Saved();
  EXPECT_GE(saved, 10);
  ExpectGoesOn(job, since, 60);
  EXPECT_THAT(Log(), HasSubstr(fmt::format("global_step_{}: step {} of", saved, saved)));
  EXPECT_EQ(StepsDone("run"), kSteps) << "a step was done twice";
}

TEST_F(SlurmTrain, AStepThatIsToldToSaveGoesOn) {
  const std::string job = Start(0.1, {"trainer.save_freq=40"});
  ASSERT_TRUE(HasDone("run", 3));
  slurm_.Run("scancel --signal=USR1 " + job + ".0");
  ASSERT_TRUE(Eventually(10, [&] { return Saved() > 0; }));
  EXPECT_LT(Saved(), 40);
  SetPace(0);
  ASSERT_TRUE(slurm_.ComesTo(job, "COMPLETED", kToCome)) << slurm_.StateOf(job);
  EXPECT_EQ(Restarts(job), 0);
  ExpectTheBytesOfAnUninterruptedRun("run");
}

TEST_F(SlurmTrain, ACancelledJobIsSavedAndNotRequeued) {
  const std::string job = Start(0.1, {"trainer.save_freq=40"});
  ASSERT_TRUE(HasDone("run", 3));
  slurm_.Run("scancel " + job);
  ASSERT_TRUE(slurm_.ComesTo(job, "CANCELLED", 30)) << slurm_.StateOf(job);
  EXPECT_TRUE(Ends(kA, "run", kSlack));
  EXPECT_TRUE(Ends(kB, "run", kSlack));
  EXPECT_GT(Saved(), 0);
  EXPECT_EQ(Restarts(job), 0);
}

TEST_F(SlurmTrain, SlowEveryProcessOfANodeIsKilled) {
  const std::string job = Start(0.1);
  ASSERT_TRUE(ComesToStep("run", 10));
  const Stopwatch since;
  hosts_.Kill(kB);
  EXPECT_TRUE(Ends(kA, "run", kPeerTimeout + kSlack));
  Tell("the other process is gone after {:.1f} s", since.seconds());
  ASSERT_TRUE(slurm_.ComesTo(job, "PENDING", 30)) << slurm_.StateOf(job);
  slurm_.StartNode(kB);  // the machine is back
  ExpectGoesOn(job, since, 60, 2);
}

// Nothing happens to the run until Slurm gives the node up; then it ends in order.
TEST_F(SlurmTrain, SlowOnlySlurmdOfANodeIsKilled) {
  const std::string job = Start(0.1);
  ASSERT_TRUE(ComesToStep("run", kSlack));
  SetPace(1.5);  // it has to run until Slurm gives the node up
  const Stopwatch since;
  hosts_.Kill(kB, "slurmd");
  EXPECT_TRUE(Ends(kA, "run", 45));
  EXPECT_TRUE(Ends(kB, "run", kPeerTimeout + kSlack));
  Tell("both processes are gone after {:.1f} s", since.seconds());
  ASSERT_TRUE(slurm_.ComesTo(job, "PENDING", 30)) << slurm_.StateOf(job);
  slurm_.StartNode(kB);
  ExpectGoesOn(job, since, 60, 2);
}

// A run that would wait longer than Slurm does: its old copy on the lost node lives on next to the
// new one, for as long as it waits, and does no harm.
TEST_F(SlurmTrain, SlowTheWireIsCutAndSlurmIsFirst) {
  const std::string job = Start(0.1, {"trainer.peer_timeout=25"});
  ASSERT_TRUE(ComesToStep("run", 10));
  const Stopwatch since;
  hosts_.CutWire();
  EXPECT_TRUE(Ends(kA, "run", 40));
  Tell("Slurm ends it on its side after {:.1f} s", since.seconds());
  ASSERT_TRUE(slurm_.ComesTo(job, "PENDING", 30)) << slurm_.StateOf(job);
  EXPECT_EQ(Trainers(kB, "run"), 1u) << "its old copy";
  hosts_.HealWire();
  ExpectGoesOn(job, since, 120, 2);
}

TEST_F(SlurmTrain, SlowTheWireIsCutAndTheRunIsFirst) {
  const std::string job = Start(0.1);
  ASSERT_TRUE(ComesToStep("run", 10));
  const Stopwatch since;
  hosts_.CutWire();
  for (const char* host : {kA, kB}) {
    EXPECT_TRUE(Ends(host, "run", kPeerTimeout + kSlack)) << host;
    Tell("{}: gone after {:.1f} s", host, since.seconds());
  }
  EXPECT_TRUE(Says("process 0: process 1 has not been heard of for 6 s", kSlack));
  EXPECT_TRUE(Eventually(30, [&] { return since.seconds() > 12; }));
  hosts_.HealWire();
  ExpectGoesOn(job, since, 120, 2);  // Slurm may take a minute to notice a healed node
}

TEST_F(SlurmTrain, SlurmctldIsKilledAndStartedAgain) {
  const std::string job = Start(1.0);
  ASSERT_TRUE(slurm_.ComesTo(job, "RUNNING", 30)) << slurm_.StateOf(job);
  // A slurmctld that has not yet saved that the job runs would try to start it again.
  const fs::path saved = hosts_.folder().path() + "/state/job_state";
  const auto runs = fs::last_write_time(workshop_.Write("runs", ""));
  ASSERT_TRUE(Eventually(30, [&] {
    std::error_code missing;  // Slurm removes the old one before it renames the new one
    const auto time = fs::last_write_time(saved, missing);
    return !missing && time > runs;
  }));
  ASSERT_TRUE(ComesToStep("run", kSlack));
  hosts_.Kill(kA, "slurmctld");
  slurm_.StartController();
  EXPECT_EQ(Trainers(kA, "run"), 1u) << "it was over before";
  SetPace(0);
  ASSERT_TRUE(slurm_.ComesTo(job, "COMPLETED", kToCome)) << slurm_.StateOf(job);
  EXPECT_EQ(Restarts(job), 0);
  ExpectTheBytesOfAnUninterruptedRun("run");
}

}  // namespace
}  // namespace nxdkit::test
