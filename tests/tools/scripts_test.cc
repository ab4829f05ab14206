// The shell scripts of the project: clean under shellcheck, and correct errors for wrong options.
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

// All of it runs in tests/packaging/quickstart.sh.
TEST(Scripts, QuickStartRefusesAWheelThatIsNotThere) {
  const std::string script = NXDKIT_SOURCE_DIR "/tools/quickstart.sh";
  const ProcessResult none = RunProcess({"bash", script, "--wheel"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, ::testing::StartsWith("quickstart.sh: --wheel needs a file\n"));
  const ProcessResult missing = RunProcess({"bash", script, "--wheel", "/nowhere/x.whl"});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_EQ(missing.out, "");
  EXPECT_EQ(missing.err, "quickstart.sh: /nowhere/x.whl: no such file\n");
}

constexpr char kArithmetic[] = NXDKIT_SOURCE_DIR "/trainer/configs/arithmetic.sh";
constexpr char kNewRun[] = NXDKIT_SOURCE_DIR "/trainer/configs/new_run.sh";
constexpr char kBuild[] = NXDKIT_TOOLS "/..";

// From nothing to a configuration that passes every check, and one step with it.
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

// Model and data by their names in the hub's cache, with columns of other names; and the same rows
// from a program.
TEST(Scripts, MakeARunOfNamesOfTheHub) {
  const TempFolder folder;
  const std::string sums = folder.path() + "/sums";
  const ProcessResult made = RunProcess({"bash", kArithmetic, "--build", kBuild, sums});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::string cache = folder.path() + "/hub";
  const std::string model = cache + "/models--me--sums/snapshots/abc";
  const std::string data = cache + "/datasets--me--rows/snapshots/def/data";
  fs::create_directories(fs::path(model).parent_path());
  fs::create_directories(data);
  fs::copy(sums + "/model", model, fs::copy_options::recursive);
  std::string rows = ReadFile(sums + "/data/train.jsonl");
  for (const auto& [from, to] :
       {std::pair("\"prompt\"", "\"problem\""), std::pair("\"answer\"", "\"solution\"")})
    for (size_t at = 0; (at = rows.find(from, at)) != std::string::npos;)
      rows.replace(at, std::string_view(from).size(), to);
  folder.Write("hub/datasets--me--rows/snapshots/def/data/train-00000-of-00001.jsonl", rows);
  const std::vector<std::string> environment = {"HF_HUB_CACHE=" + cache};
  const auto run = [&](const std::string& source, const std::string& name) {
    const std::string out = folder.path() + "/" + name;
    const ProcessResult ready =
        RunProcess({"bash",    kNewRun,        "--build",  kBuild,       "--bs",
                    "8",       "--prompt",     "4",        "--response", "4",
                    "--dtype", "f32",          "--reward", "exact",      "--prompt-key",
                    "problem", "--answer-key", "solution", "me/sums",    source,
                    out},
                   environment);
    ASSERT_EQ(ready.exit_code, 0) << ready.err;
    const ProcessResult done = RunProcess(
        {NXDKIT_TOOLS "/grpo-train", "--config", out + "/config.yaml", "trainer.max_steps=1"},
        environment);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_TRUE(fs::exists(out + "/run/global_step_1/actor")) << done.out << done.err;
  };
  run("me/rows@train", "named");
  run("exec:cat " + data + "/train-00000-of-00001.jsonl", "printed");
  const auto digest = [&](const std::string& name) {
    return RunProcess({NXDKIT_TOOLS "/ckpt-digest", folder.path() + "/" + name + "/run"}).out;
  };
  EXPECT_EQ(digest("named"), digest("printed"));
  EXPECT_THAT(digest("named"), ::testing::StartsWith("sha256:"));
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
            "no grpo-train in /nowhere/tools; build it first: "
            "cmake --preset release && cmake --build build/release\n");
}

}  // namespace
}  // namespace nxdkit::test
