// PRIVATE to trainer/reward. The rules of the built-in rewards, for one response each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nxdkit::trainer {

inline constexpr std::string_view kThink = "<think>";
inline constexpr std::string_view kThinkEnd = "</think>";
inline constexpr std::string_view kAnswer = "<answer>";
inline constexpr std::string_view kAnswerEnd = "</answer>";

// The trimmed content of the last \boxed{...} of a response. "None", which is graded like any other
// text, if there is no box or the last one is not closed: an unclosed last box hides complete ones
// before it. Escaped braces count as braces.
std::string ExtractBoxed(std::string_view response);

struct RuleScore {
  double accuracy = 0;
  double format = 0;
};

// Removes white space around each <, > and /, then scores accuracy: the last box against the truth;
// and format: "<think>", "</think>", "\boxed{", "}" in this order, the first at the very beginning.
RuleScore ScoreMath(std::string_view response, std::string_view truth);

// Accuracy of the first <answer>...</answer> on one line, or else of the whole response; format:
// "<think>...</think>", space, "<answer>...</answer>" and nothing else.
RuleScore ScoreR1v(std::string_view response, std::string_view truth);

// +1 or -1: whether the text after the last "Answer:" within the last 300 characters equals the
// truth, both normalized.
double DapoAccuracy(std::string_view response, std::string_view truth);
std::string NormalizeDapo(std::string_view answer);

struct Overlong {
  int64_t max_tokens = 0;
  int64_t buffer = 0;
};
// 0 up to max_tokens - buffer, decreasing linearly to -1 at max_tokens, and -1 above.
double OverlongPenalty(const Overlong& overlong, int64_t tokens);

}  // namespace nxdkit::trainer
