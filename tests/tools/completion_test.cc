// The completion scripts: bash runs its own; those of zsh and fish, which the tests do not require,
// are compared with lines that were tried there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tools/process.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;

std::string Script(const std::string& shell) {
  const ProcessResult result = RunProcess({NXDKIT_FRAME_TOOL, "--completion", shell});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result.out;
}

// Bash's completions of the last of `words`, sorted, one per line.
std::string Offered(const std::vector<std::string>& words) {
  std::string typed;
  for (const std::string& word : words) typed += " '" + word + "'";
  const ProcessResult result =
      RunProcess({"bash", "-c",
                  "eval \"$0\"; COMP_WORDS=(frame-tool" + typed +
                      "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _frame_tool; "
                      "printf '%s\\n' \"${COMPREPLY[@]}\" | LC_ALL=C sort",
                  Script("bash")});
  EXPECT_EQ(result.err, "");
  return result.out;
}

TEST(Completion, BashScriptIsValidBash) {
  const ProcessResult result = RunProcess({"bash", "-n", "-c", Script("bash")});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
}

TEST(Completion, BashOffersOptionNames) {
  EXPECT_EQ(Offered({"--kv"}), "--kv-multiplier\n");
  EXPECT_EQ(Offered({"--no-x"}), "--no-xser\n");
}

TEST(Completion, BashOffersTheValuesOfAnOption) {
  EXPECT_EQ(Offered({"--hw", ""}), "trn1\ntrn2\n");
  EXPECT_EQ(Offered({"good", "--qkv", "f"}), "fused\n");
  EXPECT_EQ(Offered({"--hw", "=", ""}), "trn1\ntrn2\n") << "bash splits --hw=... at the sign";
  EXPECT_EQ(Offered({"--hw", "="}), "trn1\ntrn2\n");
}

TEST(Completion, BashOffersNothingForANumber) { EXPECT_EQ(Offered({"--tp", ""}), "\n"); }

TEST(Completion, BashOffersFilesWithSpacesInTheirNames) {
  const TempFolder folder;
  const std::string path = folder.Write("two words", "");
  EXPECT_EQ(Offered({folder.path() + "/tw"}), path + "\n");
  EXPECT_EQ(Offered({"--config", folder.path() + "/tw"}), path + "\n");
  EXPECT_EQ(Offered({"--bundle", folder.path() + "/tw"}), "\n") << "--bundle takes a folder";
}

TEST(Completion, ZshScriptOffersEveryOption) {
  const std::string script = Script("zsh");
  EXPECT_THAT(script, ::testing::StartsWith("#compdef frame-tool\n"));
  EXPECT_THAT(script, HasSubstr("'--hw=[hardware of the set, which orders the copies of key/value "
                                "heads]:trn1|trn2:(trn1 trn2)'"));
  EXPECT_THAT(script, HasSubstr("'*--filter=["));
  EXPECT_THAT(script, HasSubstr("'-j+["));
  EXPECT_THAT(script, HasSubstr("':INPUT:_files'"));
}

TEST(Completion, FishScriptOffersEveryOption) {
  const std::string script = Script("fish");
  EXPECT_THAT(script, HasSubstr("complete -c frame-tool -l hw -x -a 'trn1 trn2' -d '"));
  EXPECT_THAT(script, HasSubstr("complete -c frame-tool -l config -r -F -d '"));
  EXPECT_THAT(script, HasSubstr("complete -c frame-tool -s j -x -d '"));
}

TEST(Completion, UnknownShellIsAUsageError) {
  const ProcessResult result = RunProcess({NXDKIT_FRAME_TOOL, "--completion", "tcsh"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "frame-tool: error: option --completion: found \"tcsh\", expected one of "
            "bash|zsh|fish\n");
}

}  // namespace
}  // namespace nxdkit::test
