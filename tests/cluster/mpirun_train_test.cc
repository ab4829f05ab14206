// grpo-train under mpirun on two hosts: what becomes of a run when a process, a daemon or the wire
// fails. The job ends on both, with nobody to start it again.
#include <signal.h>

#include <filesystem>

#include "tests/cluster/cluster_run.h"
#include "tests/tools/kill.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kFirst = TwoHosts::kHosts[0];
constexpr const char* kSecond = TwoHosts::kHosts[1];

class MpirunTrain : public ClusterRun {
 protected:
  // The command on both hosts, with what it says in a file.
  Words Launch(double pace, const Words& more = {}, const std::string& options = "",
               int seconds = 120) const {
    Words command = {"env"};
    for (const std::string& variable : Environment(pace)) command.push_back(variable);
    for (const std::string& word : Training("run", more)) command.push_back(word);
    Words words = hosts_.OnBoth(command, options, seconds);
    words.back() += " > " + log_ + " 2>&1";
    return words;
  }
  std::string Log() const { return ReadFile(log_); }
  void ExpectNothingIsLeft(double seconds) const {
    for (const char* host : {kFirst, kSecond})
      EXPECT_TRUE(Eventually(seconds, [&] { return hosts_.Processes(host).empty(); })) << host;
  }
  // The same command again, or one with other words.
  void ExpectTheRestComesToTheSameBytes(const Words& command) const {
    const ProcessResult rest = RunProcess(command);
    ASSERT_EQ(rest.exit_code, 0) << rest.err << Log();
    ExpectDone("run");
    ExpectTheBytesOfAnUninterruptedRun("run");
  }
  const std::string log_ = workshop_ / "log";
};

TEST_F(MpirunTrain, AProcessIsKilled) {
  const pid_t job = StartProcess(Launch(0.1, {}, TwoHosts::kKeepalives));
  ASSERT_TRUE(ComesToStep("run", 10));
  const Stopwatch since;
  hosts_.Kill(kSecond, "grpo-train");
  EXPECT_EQ(WaitProcess(job), 137);
  Tell("mpirun has ended after {:.1f} s", since.seconds());
  EXPECT_LT(since.seconds(), 15);
  ExpectNothingIsLeft(10);
  ExpectTheRestComesToTheSameBytes(Launch(0, {}, TwoHosts::kKeepalives));
}

}  // namespace
}  // namespace nxdkit::test
