#include "trainer/loop/format_check.h"

#include <fmt/core.h>

#include "trainer/base/characters.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kThinkEnd = "</think>";

// Whether decoding its ids gives the tag back. Some tokenizers put a space before a text.
bool IsWritten(const Tokenizer& tokenizer, std::string_view tag, bool skips_special) {
  const auto ids = tokenizer.Encode(tag, false);
  return ids.ok() && Strip(tokenizer.Decode(*ids, skips_special)) == Strip(tag);
}

std::string FormatProblem(const FormatQuestion& question, std::string_view why,
                          std::string_view mend) {
  return fmt::format(
      "{}: the format of reward {} is never right, and nothing is learnt from it; {}, or set "
      "worker.reward.reward_function_kwargs.format_weight=0",
      why, question.reward, mend);
}

}  // namespace

std::string FormatWarning(const FormatQuestion& question) {
  if (question.tags.empty()) return "";
  const std::string_view first = question.tags.front();
  const std::string_view prompt = Strip(question.prompt);
  constexpr std::string_view kTemplate =
      "use a template that leaves it to the response (data.override_chat_template)";
  if (prompt.ends_with(first))
    return FormatProblem(
        question, fmt::format("the prompt ends with {}, so no response begins with it", first),
        kTemplate);
  if (prompt.ends_with(kThinkEnd))
    return FormatProblem(
        question,
        fmt::format("the prompt ends with {}: the thinking is over before the response begins, "
                    "which has no {}",
                    kThinkEnd, first),
        fmt::format("set data.enable_thinking=true if the template supports it, {}", kTemplate));
  for (const std::string_view tag : question.tags) {
    if (!IsWritten(*question.tokenizer, tag, false))
      return FormatProblem(question, fmt::format("the tokenizer has no tokens for {}", tag),
                           "use a model that has them");
    if (question.skips_special && !IsWritten(*question.tokenizer, tag, true))
      return FormatProblem(
          question, fmt::format("{} is a special token, which is removed before scoring", tag),
          "set worker.reward.skip_special_tokens=false");
  }
  return "";
}

}  // namespace nxdkit::trainer
