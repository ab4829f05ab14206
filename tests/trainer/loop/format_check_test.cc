// Formats that no response can have, reported before anything is trained.
#include "trainer/loop/format_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/text/tokenizer_json.h"
#include "trainer/reward/reward.h"

namespace nxdkit::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Tokenizer Made(const Json& json) {
  auto tokenizer = Tokenizer::Parse(json.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
  return *std::move(tokenizer);
}

std::string Warning(const std::string& reward, const std::string& prompt,
                    const RewardOptions& options = {}, bool skips_special = true,
                    const Json& json = testing::SmallTokenizer()) {
  const Tokenizer tokenizer = Made(json);
  return FormatWarning({.reward = reward,
                        .tags = FormatTags(reward, options),
                        .prompt = prompt,
                        .tokenizer = &tokenizer,
                        .skips_special = skips_special});
}

// DeepSeek-R1-Distill and Qwen3.5 write it, with or without a line feed.
TEST(FormatWarning, APromptThatEndsWithTheTagLeavesNoneToTheResponse) {
  for (const char* prompt : {"hello<think>", "hello<think>\n"})
    for (const char* reward : {"math", "r1v"}) {
      const std::string warning = Warning(reward, prompt);
      EXPECT_THAT(warning,
                  HasSubstr("the prompt ends with <think>, so no response begins with it"));
      EXPECT_THAT(warning, HasSubstr(std::string("the format of reward ") + reward +
                                     " is never right, and nothing is learnt from it"));
      EXPECT_THAT(warning, HasSubstr("data.override_chat_template"));
      EXPECT_THAT(warning, HasSubstr("format_weight=0"));
    }
}

// Qwen3 with enable_thinking=false.
TEST(FormatWarning, AnEmptyThinkBlockIsOverBeforeTheResponse) {
  const std::string warning = Warning("math", "hello<think>\n\n</think>\n\n");
  EXPECT_THAT(warning, HasSubstr("the prompt ends with </think>"));
  EXPECT_THAT(warning, HasSubstr("data.enable_thinking=true"));
}

TEST(FormatWarning, WhereTheTagIsLeftToTheResponseNothingIsSaid) {
  for (const char* prompt : {"hello", "write <think> first\nhello", "<think></think> hello"})
    EXPECT_THAT(Warning("math", prompt), IsEmpty()) << prompt;
}

TEST(FormatWarning, RewardsWithoutAFormatAskForNone) {
  for (const char* reward : {"dapo", "exact", "exec:score"})
    EXPECT_THAT(Warning(reward, "hello<think>"), IsEmpty()) << reward;
  EXPECT_THAT(Warning("math", "hello<think>", {{"format_weight", 0}}), IsEmpty());
  EXPECT_THAT(Warning("math", "hello<think>", {{"format_weight", 0.5}}), HasSubstr("never right"));
}

TEST(FormatWarning, SpecialTokensAreTakenOutOfWhatIsScored) {
  Json json = testing::SmallTokenizer();
  json["added_tokens"].push_back(testing::AddedTokenJson(262, "<answer>"));
  EXPECT_THAT(Warning("math", "hello", {}, true, json), IsEmpty()) << "it has no such tag";
  EXPECT_THAT(Warning("r1v", "hello", {}, true, json),
              HasSubstr("<answer> is a special token, which is removed before scoring: the "
                        "format of reward r1v is never right"));
  EXPECT_THAT(Warning("r1v", "hello", {}, true, json),
              HasSubstr("worker.reward.skip_special_tokens=false"));
  EXPECT_THAT(Warning("r1v", "hello", {}, false, json), IsEmpty());
}

TEST(FormatWarning, ASpaceBeforeTheTextIsNoOtherTag) {
  Json json = testing::SmallTokenizer();
  json["normalizer"] = {{"type", "Prepend"}, {"prepend", " "}};
  EXPECT_THAT(Warning("math", "hello", {}, true, json), IsEmpty());
}

TEST(FormatWarning, ATokenizerMayHaveNoLettersForIt) {
  Json json = testing::SmallTokenizer();
  Json& vocabulary = json["model"]["vocab"];
  vocabulary["ee"] = vocabulary["k"];
  vocabulary.erase("k");
  EXPECT_THAT(Warning("math", "hello", {}, true, json),
              HasSubstr("the tokenizer has no tokens for <think>"));
}

}  // namespace
}  // namespace nxdkit::trainer
