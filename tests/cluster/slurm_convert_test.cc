// A conversion as a Slurm array, by the batch file that users copy; one of its nodes is lost.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cluster/slurm_cluster.h"
#include "tests/lib/eventually.h"
#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using testing_util::Eventually;
using testing_util::Stopwatch;

constexpr int kParts = 4;

class SlurmConvert : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!slurm_.missing().empty()) GTEST_SKIP() << slurm_.missing();
    // The parts of one host wait before they begin, as long as `held` exists.
    const std::string program =
        workshop_.Write("bin/nxd-convert",
                        fmt::format("#!/bin/bash\ntouch {0}/part.$SLURM_ARRAY_TASK_ID.$(hostname)\n"
                                    "while [ -e {0}/held.$(hostname) ]; do sleep 0.1; done\n"
                                    "exec {1} --no-sync \"$@\"\n",
                                    workshop_.path(), Workshop::Tool("nxd-convert")));
    fs::permissions(program, fs::perms::owner_all);
  }
  void TearDown() override {
    if (!HasFailure()) return;
    fmt::print("{}\n", slurm_.Run("scontrol --oneliner show job; scontrol show nodes").out);
    for (int part = 0; part < kParts; ++part) {
      const std::string log = workshop_ / fmt::format("part-{}.log", part);
      if (fs::exists(log)) fmt::print("part {}: {}\n", part, ReadFile(log));
    }
  }
  int Count(const std::string& host) const {
    int count = 0;
    for (int part = 0; part < kParts; ++part)
      count += fs::exists(workshop_ / fmt::format("part.{}.{}", part, host));
    return count;
  }

  const TwoHosts hosts_;
  const SlurmCluster slurm_{hosts_};
  const Workshop workshop_;
};

TEST_F(SlurmConvert, SlowOnlyThePartsOfALostNodeAreDoneAgain) {
  const std::string model = workshop_.MakeModel("model", testing_util::TinyQwen3());
  workshop_.Write("held.hostB", "");
  // Two CPUs for each part: two parts on each node of four.
  const std::string job = slurm_.Submit(
      {fmt::format("--array=0-{}", kParts - 1), "--cpus-per-task=2",
       NXDKIT_SOURCE_DIR "/tools/deploy/convert-array.sbatch", model, workshop_ / "out", "--from",
       "hf", "--to", "nxd", "--tp", "4", "--hw", "trn2"},
      {"PATH=" + (workshop_ / "bin") + ":" + getenv("PATH")}, workshop_ / "part-%a.log");
  ASSERT_TRUE(Eventually(30, [&] { return Count("hostA") == 2 && Count("hostB") == 2; }));
  const Stopwatch since;
  hosts_.Kill("hostB");
  const bool done = Eventually(90, [&] { return fs::exists(workshop_ / "out"); });
  fmt::print("[ MEASURED ] the output is there {:.1f} s after the node was lost\n",
             since.seconds());
  ASSERT_TRUE(done);
  EXPECT_EQ(Count("hostA"), kParts);
  ExpectConverts("--from hf --to nxd --tp 4 --hw trn2", model, workshop_ / "one");
  ExpectSameTree(workshop_ / "out", workshop_ / "one");
  int restarts = 0;
  for (int part = 0; part < kParts; ++part) {
    const std::string task = fmt::format("{}_{}", job, part);
    EXPECT_TRUE(slurm_.ComesTo(task, "COMPLETED", 30)) << task;
    const bool lost = fs::exists(workshop_ / fmt::format("part.{}.hostB", part));
    EXPECT_EQ(slurm_.RestartsOf(task), lost ? 1 : 0) << task;
    restarts += slurm_.RestartsOf(task);
  }
  EXPECT_EQ(restarts, 2);
}

}  // namespace
}  // namespace nxdkit::test
