// trainer/EXTENDING.md: each program, saved under its name, does a training step with the command
// that the page gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/grpo_workshop.h"
#include "tests/tools/typed_page.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;

class GrpoExtending : public GrpoTrain {
 protected:
  // Does one step as the section says. The words of its command follow those of the example.
  ProcessResult Step(const std::string& section) const {
    const std::string text =
        SectionOf(ReadFile(NXDKIT_SOURCE_DIR "/trainer/EXTENDING.md"), section);
    for (const PageBlock& block : BlocksOf(text)) {
      std::string program;
      for (const std::string& line : block.lines) program += line + "\n";
      workshop_.Write(program.substr(2, program.find(':') - 2), program);
    }
    const std::string kCommand = "\n    grpo-train --config trainer/configs/arithmetic.yaml ";
    const size_t begin = text.find(kCommand);
    EXPECT_NE(begin, std::string::npos);
    const size_t words = begin + kCommand.size();
    const std::string typed = text.substr(words, text.find('\n', words) - words);
    Words command = {"bash", "-c", "cd \"$0\"; exec \"$@\" " + typed, workshop_.path()};
    for (const std::string& word : Command("run", {"trainer.max_steps=1"})) command.push_back(word);
    return RunProcess(command);
  }

  double Metric(const std::string& group, const std::string& name) const {
    return Steps("run").at(1)[group][name].get<double>();
  }
};

TEST_F(GrpoExtending, ARewardScores) {
  const ProcessResult result = Step("A reward");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GE(Metric("reward", "overall"), Metric("reward", "accuracy"));
}

TEST_F(GrpoExtending, ADataSourceGivesRows) {
  const ProcessResult result = Step("A data source");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Steps("run").count(1), 1u);
}

TEST_F(GrpoExtending, AnEngineGenerates) {
  const ProcessResult result = Step("An engine");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(ReadFile(workshop_ / "run/weight_syncs.jsonl"), HasSubstr("\"exec random\""));
}

}  // namespace
}  // namespace nxdkit::test
