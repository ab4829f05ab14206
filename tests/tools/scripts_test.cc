// The shell scripts of the project: clean under shellcheck, and honest about wrong options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/tools/process.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Scripts() {
  const std::string root = NXDKIT_SOURCE_DIR;
  std::vector<std::string> scripts = {root + "/.ci/run"};
  for (const char* folder : {"/tools", "/tests", "/bench", "/man", "/testdata", "/trainer"}) {
    if (!fs::exists(root + folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root + folder))
      if (const std::string kind = entry.path().extension(); kind == ".sh" || kind == ".sbatch")
        scripts.push_back(entry.path().string());
  }
  return scripts;
}

TEST(Scripts, PassShellcheck) {
  const std::vector<std::string> scripts = Scripts();
  EXPECT_GE(scripts.size(), 4u) << "the tree was not found";
  for (const std::string& script : scripts) {
    const ProcessResult result =
        RunProcess({"shellcheck", "-x", "-P", NXDKIT_SOURCE_DIR, "--", script});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
}

TEST(Scripts, QuickStartRefusesAnUnknownOption) {
  const ProcessResult result =
      RunProcess({"bash", NXDKIT_SOURCE_DIR "/tools/quickstart.sh", "--smal"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, ::testing::StartsWith("quickstart.sh: unknown option --smal\n"));
}

constexpr char kArithmetic[] = NXDKIT_SOURCE_DIR "/trainer/configs/arithmetic.sh";
constexpr char kNewRun[] = NXDKIT_SOURCE_DIR "/trainer/configs/new_run.sh";
constexpr char kBuild[] = NXDKIT_TOOLS "/..";

// From nothing to a configuration that passes every check, and one step of it.
TEST(Scripts, MakeARunOfAnyModel) {
  const TempFolder folder;
  const std::string sums = folder.path() + "/sums and more";
  const ProcessResult made = RunProcess({"bash", kArithmetic, "--build", kBuild, sums});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, ::testing::HasSubstr("/tools/grpo-train --config "));

  const std::string run = folder.path() + "/a run";
  const ProcessResult ready =
      RunProcess({"bash", kNewRun, "--build", kBuild, "--tp", "2", "--bs", "8", "--prompt", "4",
                  "--response", "4", "--dtype", "f32", "--reward", "exact", sums + "/model",
                  sums + "/data/train.jsonl", run});
  ASSERT_EQ(ready.exit_code, 0) << ready.err;
  const std::string config = run + "/config.yaml";
  const ProcessResult done =
      RunProcess({NXDKIT_TOOLS "/grpo-train", "--config", config, "trainer.max_steps=1"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(fs::exists(run + "/run/global_step_1/actor")) << done.out << done.err;
}

TEST(Scripts, SayWhereTheCommandsAreMissing) {
  for (const char* script : {kArithmetic, kNewRun}) {
    const ProcessResult nowhere =
        RunProcess({"bash", script, "--build", "/nowhere", "a", "b", "c"});
    EXPECT_NE(nowhere.exit_code, 0) << script;
    const ProcessResult option = RunProcess({"bash", script, "--bild", "/nowhere"});
    EXPECT_EQ(option.exit_code, 2) << script;
    EXPECT_THAT(option.err, ::testing::HasSubstr("usage: bash trainer/configs/")) << script;
  }
  const ProcessResult nowhere = RunProcess({"bash", kArithmetic, "--build", "/nowhere"});
  EXPECT_EQ(nowhere.exit_code, 3);
  EXPECT_EQ(nowhere.err,
            "no grpo-train in /nowhere/tools; build it first: bash tools/quickstart.sh\n");
}

}  // namespace
}  // namespace nxdkit::test
