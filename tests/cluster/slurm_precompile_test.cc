// The precompile job that users copy, on two nodes of a real Slurm, and the training job that
// depends on it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cluster/slurm_cluster.h"
#include "tests/tools/precompile_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr double kLongest = 60;  // seconds that a job may take

class SlurmPrecompile : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!slurm_.missing().empty()) GTEST_SKIP() << slurm_.missing();
    for (const char key : {'a', 'b', 'c', 'd', 'e', 'f'}) {
      shop_.AddGraph(key, 0, "graphs");
      shop_.Plan(key, "slow");
    }
  }
  void TearDown() override {
    if (!HasFailure()) return;
    fmt::print("{}\n", slurm_.Run("scontrol --oneliner show job").out);
    for (const char* log : {"/precompile.log", "/run.log"})
      if (fs::exists(shop_.path() + log)) fmt::print("{}: {}\n", log, ReadFile(shop_.path() + log));
  }
  std::string Submit(const Words& command, const std::string& log) const {
    const char* path = std::getenv("PATH");
    return slurm_.Submit(
        command,
        {"NEURON_STANDIN=" + shop_.path(), "NEURON_COMPILE_CACHE_URL=" + shop_.Cache(),
         "USED_BY=" + shop_ / "used.json",
         "PATH=" + shop_ / "bin" + ":" NXDKIT_TOOLS ":" + (path == nullptr ? "" : path)},
        shop_ / log);
  }
  std::string SubmitPrecompile() const {
    return Submit({"--nodes=2", NXDKIT_SOURCE_DIR "/tools/deploy/precompile.sbatch", "trn1",
                   "trace", "a", "b", "c", "d", "e", "f"},
                  "precompile.log");
  }
  std::string SubmitRun(const std::string& after) const {
    return Submit({"--dependency=afterok:" + after, "--kill-on-invalid-dep=yes",
                   shop_.Write("run.sbatch",
                               "#!/bin/bash\nexec neuron-cache check --used-by \"$USED_BY\"\n")},
                  "run.log");
  }
  const TwoHosts hosts_;
  const SlurmCluster slurm_{hosts_};
  const PrecompileWorkshop shop_;
};

TEST_F(SlurmPrecompile, SlowTwoNodesCompileEachGraphOnceAndThenTheTrainingBegins) {
  const std::string job = SubmitPrecompile();
  const std::string run = SubmitRun(job);
  EXPECT_EQ(slurm_.StateOf(run), "PENDING");
  ASSERT_TRUE(slurm_.ComesTo(run, "COMPLETED", kLongest));
  EXPECT_EQ(slurm_.StateOf(job), "COMPLETED");
  const std::map<char, int> compiled = shop_.Compiled();
  EXPECT_EQ(compiled.size(), 6u);
  for (const auto& [key, count] : compiled) EXPECT_EQ(count, 1) << key;
  const std::string traced = ReadFile(shop_ / "programs");
  EXPECT_EQ(std::count(traced.begin(), traced.end(), '\n'), 2) << "both nodes, and no check";
  EXPECT_THAT(ReadFile(shop_ / "run.log"), HasSubstr("6 of 6 graphs have a result"));
  EXPECT_THAT(shop_.Ending(".lock"), ::testing::IsEmpty());
}

TEST_F(SlurmPrecompile, SlowTheTrainingDoesNotBeginWhereAGraphFailed) {
  shop_.Plan('c', "fail");
  const std::string job = SubmitPrecompile();
  const std::string run = SubmitRun(job);
  ASSERT_TRUE(slurm_.ComesTo(job, "FAILED", kLongest));
  EXPECT_TRUE(slurm_.ComesTo(run, "CANCELLED", kLongest));
  EXPECT_FALSE(fs::exists(shop_ / "run.log"));
  EXPECT_EQ(shop_.Compiled().size(), 5u);
}

}  // namespace
}  // namespace nxdkit::test
