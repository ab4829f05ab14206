// The built-in rewards: the worked examples of the reference, options, names.
#include "trainer/reward/reward.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trainer/reward/rules.h"

namespace nxdkit::trainer {
namespace {

Scores One(const std::string& name, const RewardOptions& options, const std::string& response,
           const std::string& truth, int64_t tokens = 10) {
  auto reward = MakeReward(name, options);
  EXPECT_TRUE(reward.ok());
  const RewardSample sample = {response, tokens, truth};
  auto scores = (*reward)->Score(std::span(&sample, 1));
  EXPECT_TRUE(scores.ok());
  return scores->at(0);
}

TEST(MathReward, WorkedExamples) {
  struct Case {
    const char* response;
    const char* truth;
    double overall;
  };
  const Case cases[] = {
      {"<think>a</think>\\boxed{5}", "5", 1.0},
      {"a</think>\\boxed{5}", "5", .9},
      {"\\boxed{5}", "5", .9},
      {"<think>\\boxed{5}</think> answer 5", "5", .9},
      {"<think>a</think>\\boxed{6}", "5", .1},
      {"<think>x</think> 5", "5", 0},
      {"<think>a</think>\\boxed{}", "5", .1},
      {"<think>a</think>\\boxed{7 3 / 4}", "7\\frac{3}{4}", 1.0},
      {"< think > a\n\n</ think >\n\\boxed{5}\n", "5", 1.0},
      {" <think>a</think>\\boxed{5}", "5", 1.0},
      {"x<think>a</think>\\boxed{5}", "5", .9},
  };
  for (const Case& one : cases) {
    const Scores scores = One("math", {}, one.response, one.truth);
    EXPECT_NEAR(scores.at("overall"), one.overall, 1e-12) << one.response;
    EXPECT_EQ(scores.size(), 3u);
    EXPECT_NEAR(scores.at("overall"), .9 * scores.at("accuracy") + .1 * scores.at("format"), 1e-12);
  }
  EXPECT_NEAR(One("math", {{"format_weight", .5}}, "\\boxed{5}", "5").at("overall"), .5, 1e-12);
}

TEST(R1vReward, WorkedExamples) {
  struct Case {
    const char* response;
    double overall, accuracy;
  };
  const Case cases[] = {
      {"<think>a</think><answer>5</answer>", 1, 1},
      {"<think>a\nb</think> \n <answer> 5 </answer>", 1, 1},
      {"<answer>5</answer>", .5, 1},
      {"<think>a</think><answer>\n5</answer>", .5, 0},
      {"5", .5, 1},
      {" 5\n", .5, 1},
      {"<think>a</think><answer>5</answer> ", .5, 1},
      {"<think>a</think>so<answer>5</answer>", .5, 1},
      {"<think></think></think><answer>5</answer>", 1, 1},
      {"<answer>\n4</answer><answer>5</answer>", .5, 1},
      {"<think></think><answer></answer>", .5, 0},
      {"6", 0, 0},
  };
  for (const Case& one : cases) {
    const Scores scores = One("r1v", {}, one.response, "5 ");
    EXPECT_NEAR(scores.at("overall"), one.overall, 1e-12) << one.response;
    EXPECT_EQ(scores.at("accuracy"), one.accuracy) << one.response;
  }
}

TEST(DapoReward, WorkedExamples) {
  const RewardOptions options = {
      {"max_response_length", 100}, {"overlong_buffer_length", 20}, {"overlong_penalty_factor", 1}};
  struct Case {
    const char* response;
    const char* truth;
    int64_t tokens;
    double overall;
  };
  const Case cases[] = {
      {"Answer: 5", "5", 10, 1},
      {"Answer: 4\nAnswer: 5", "5", 90, .5},
      {"Answer: 5", "5", 80, 1},
      {"Answer: 5", "5", 100, 0},
      {"Answer: 6", "5", 101, -2},
      {"**Answer:** 5", "5", 10, -1},
      {"Answer: x = 5", "5", 10, 1},
      {"Answer: 5 cm", "5", 10, 1},
      {"Answer: 1,000", "1000", 10, 1},
      {"so ANSWER :\n 5", "5", 10, 1},
      {"Answer: \\frac12", "\\frac{1}{2}", 10, 1},
      {"Answer: $\\boxed{5}$.", "5", 10, 1},
      {"5", "5", 10, -1},
      {"Answer:", "", 10, -1},
      {"Answer: ", "", 10, 1},
  };
  for (const Case& one : cases) {
    const Scores scores = One("dapo", options, one.response, one.truth, one.tokens);
    EXPECT_NEAR(scores.at("overall"), one.overall, 1e-12) << one.response;
    EXPECT_EQ(scores.at("accuracy_normalized"), (scores.at("accuracy") + 1) / 2);
    EXPECT_NEAR(scores.at("overall"), scores.at("accuracy") + scores.at("overlong"), 1e-12);
  }
  const std::string far = "Answer: 5" + std::string(292, ' ');
  EXPECT_EQ(DapoAccuracy(far, "5"), -1) << "more than 300 characters before the end";
  EXPECT_EQ(DapoAccuracy(far.substr(1), "5"), -1) << "no A";
  EXPECT_EQ(DapoAccuracy(far.substr(0, 300), "5"), 1);
}

TEST(DapoReward, Forms) {
  struct Case {
    const char* given;
    const char* form;
  };
  const Case cases[] = {
      {"an apple", "apple"},
      {"a b", "b"},
      {"5 \\text{ m}", "5"},
      {"\\textbf{5}", "5"},
      {"5\\text{ and }6", "56"},
      {"\\mbox{5}", "5"},
      {"sqrt2", "sqrt{2}"},
      {"frac12", "frac{1}{2}"},
      {"12,345", "12345"},
      {"(1,2)", "(1,2)"},
      {"x $5$ y", "5"},
      {"90^\\circ", "90"},
      {"3\\%", "3\\%"},
      {"5 students", "5"},
      {"\\boxed{\\text{5}}", "5"},
  };
  for (const Case& one : cases) EXPECT_EQ(NormalizeDapo(one.given), one.form) << one.given;
}

TEST(ExactReward, TrimsBothSides) {
  EXPECT_EQ(One("exact", {}, " yes\n", "yes").at("overall"), 1);
  EXPECT_EQ(One("exact", {}, "Yes", "yes").at("overall"), 0);
}

void ExpectUsage(const std::string& name, const RewardOptions& options, const std::string& member,
                 const std::string& message, const std::string& hint = "") {
  const auto reward = MakeReward(name, options);
  ASSERT_FALSE(reward.ok()) << name;
  EXPECT_EQ(reward.error().code(), Errc::kUsage);
  EXPECT_EQ(reward.error().member(), member);
  EXPECT_EQ(reward.error().message(), message);
  EXPECT_EQ(reward.error().hint(), hint);
}

TEST(Rewards, NamesAndOptions) {
  ExpectUsage("mth", {}, "worker.reward.reward_function",
              "'mth' is not one of math, r1v, dapo, exact, nor exec:PROGRAM", "did you mean math?");
  ExpectUsage("math", {{"format_wieght", 1}}, "reward_function_kwargs.format_wieght",
              "the reward math has no such option", "did you mean format_weight?");
  ExpectUsage("math", {{"format_weight", 1.5}}, "reward_function_kwargs.format_weight",
              "1.5 is out of range: expected 0 to 1");
  ExpectUsage("dapo", {{"max_response_length", 5}}, "reward_function_kwargs.overlong_buffer_length",
              "the reward dapo needs it");
  ExpectUsage(
      "dapo",
      {{"max_response_length", 5}, {"overlong_buffer_length", 6}, {"overlong_penalty_factor", 1}},
      "reward_function_kwargs.overlong_buffer_length",
      "6 is more than the max_response_length of 5");
  ExpectUsage("exec:'x", {}, "", "the quote ' in \"'x\" is not closed");
}

}  // namespace
}  // namespace nxdkit::trainer
