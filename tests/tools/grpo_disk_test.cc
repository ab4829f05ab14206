// grpo-train on a disk that fills up: the error, the remaining files, and resuming from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/grpo_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class GrpoOnAFullDisk : public GrpoTrain {
 protected:
  // Answers 0.5, and once, after so many answers, fills the disk.
  std::string FillingReward(int64_t after) {
    const std::string fill = "cat /dev/zero > '" + disk_ + "/filler' 2> /dev/null";
    return "worker.reward.reward_function=exec:bash " +
           workshop_.Write("fill" + std::to_string(after) + ".sh",
                           "n=0\nwhile read -r line; do\n  n=$((n + 1))\n  if [ $n = " +
                               std::to_string(after) + " ] && mkdir \"$0.done\"; then " + fill +
                               "; fi\n  echo '{\"overall\": 0.5}'\ndone\n");
  }

  // A run on a disk of so many KiB, then once more with space; the remaining files are copied to
  // "first" and "second".
  ProcessResult RunTwice(const std::string& size, const Words& words) const {
    const auto quoted = [](const Words& command) {
      std::string text;
      for (const std::string& word : command) text += " '" + word + "'";
      return text;
    };
    const std::string train = quoted(Command("disk/run", words));
    const std::string script =
        "mkdir -p '" + disk_ + "'\nmount -t tmpfs -o size=" + size + " tmpfs '" + disk_ +
        "' || exit 77\n" + train + "\necho exit $?\ncp -r '" + disk_ + "/run' '" +
        (workshop_ / "first") + "'\nrm -f '" + disk_ + "/filler'\nmount -o remount,size=64m '" +
        disk_ + "'\n" + train + "\necho exit $?\ncp -r '" + disk_ + "/run' '" +
        (workshop_ / "second") + "'\n";
    return RunProcess({"unshare", "-Urm", "bash", "-c", script});
  }

  const std::string disk_ = workshop_ / "disk";
};

TEST_F(GrpoOnAFullDisk, SaysWhichFileLosesNothingAndGoesOn) {
  if (const std::string missing = MountsMissing(); !missing.empty()) GTEST_SKIP() << missing;
  const struct {
    const char* what;
    const char* size;
    int64_t fill_after;  // answers of the reward; 0: never
    const char* file;
    int64_t last;  // the existing checkpoint; 0: none
  } rows[] = {
      {"weight sync", "700k", 0, "run/rollout_bundle/checkpoint/.weights.1/tp1_", 0},
      {"checkpoint", "3300k", 0, "run/global_step_4.attempt-1.partial/actor.partial/optim/", 2},
      {"export", "3700k", 0, "run/global_step_4.attempt-1.partial/actor/huggingface.partial/", 2},
      {"logs", "8m", 2 * 512 + 100, "run/experiment_log.jsonl", 2},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    for (const char* name : {"first", "second", "whole"}) fs::remove_all(workshop_ / name);
    Words words = {"trainer.max_steps=6", "trainer.save_freq=2"};
    // Without the filler the program only answers.
    words.push_back(FillingReward(row.fill_after));
    const ProcessResult result = RunTwice(row.size, words);
    // Two JSON documents, each followed by its exit code.
    const size_t end = result.out.find("exit ");
    ASSERT_NE(end, std::string::npos) << result.err;
    EXPECT_EQ(result.out.substr(end, 7), "exit 5\n") << result.out;
    const Json error = Json::parse(result.out.substr(0, end))["error"];
    EXPECT_THAT(error["file"].get<std::string>(), HasSubstr(row.file));
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(" bytes"));
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("No space left on device"));
    EXPECT_THAT(error["hint"].get<std::string>(), HasSubstr("free some space"));
    const fs::path first = workshop_ / "first";
    EXPECT_EQ(fs::exists(first / "checkpoint_tracker.json"), row.last > 0);
    EXPECT_FALSE(fs::exists(first / "global_step_4"));
    EXPECT_FALSE(fs::exists(first / "global_step_4.attempt-1.partial"));
    if (row.last > 0) {
      const std::string actor = first / ("global_step_" + std::to_string(row.last) + "/actor");
      const ProcessResult verified = RunProcess({Workshop::Tool("ckpt-verify"), actor});
      EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
    }
    EXPECT_THAT(result.out, ::testing::EndsWith("exit 0\n"));
    ASSERT_EQ(Train("whole", {words[0], words[1], FillingReward(0)}).exit_code, 0);
    EXPECT_EQ(Steps("second"), Steps("whole"));
  }
}

// A limit on the size of files (ulimit -f) ends a process that does not handle it.
TEST_F(GrpoOnAFullDisk, AFileSizeLimitIsAnErrorToo) {
  std::string script = "ulimit -f 300\nexec";
  for (const std::string& word : Command("run", {"trainer.max_steps=1"}))
    script += " '" + word + "'";
  const ProcessResult result = RunProcess({"bash", "-c", script});
  EXPECT_EQ(result.exit_code, 5) << result.out;
  const Json error = JsonOf(result)["error"];
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("File too large"));
  EXPECT_THAT(error["file"].get<std::string>(),
              HasSubstr("global_step_1.attempt-1.partial/actor.partial"));
  EXPECT_FALSE(fs::exists(workshop_ / "run/global_step_1"));
}

}  // namespace
}  // namespace nxdkit::test
