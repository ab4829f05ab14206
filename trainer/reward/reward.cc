#include "trainer/reward/reward.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "trainer/reward/exec_reward.h"
#include "trainer/reward/rules.h"
#include "trainer/reward/text.h"

namespace nxdkit::trainer {
namespace {

// A rule that scores one sample at a time and cannot fail.
class RuleReward : public Reward {
 public:
  using Rule = std::function<Scores(const RewardSample&)>;
  explicit RuleReward(Rule rule) : rule_(std::move(rule)) {}
  Result<std::vector<Scores>> Score(std::span<const RewardSample> samples,
                                    const ScoreHooks& hooks) override {
    std::vector<Scores> scores;
    for (const RewardSample& sample : samples) {
      if (hooks.poll) NXDKIT_TRY(hooks.poll());
      scores.push_back(rule_(sample));
      if (hooks.progress) hooks.progress(scores.size());
    }
    return scores;
  }

 private:
  Rule rule_;
};

using Made = Result<std::unique_ptr<Reward>>;

Made MakeRule(RuleReward::Rule rule) {
  return std::unique_ptr<Reward>(std::make_unique<RuleReward>(std::move(rule)));
}

// The options of one reward, checked as they are read.
struct Option {
  std::string_view name;
  std::optional<double> standard;  // none: it is required
  double least = 0;
  double most = 1e9;
};

Error OptionError(std::string_view name, std::string message) {
  return Error(Errc::kUsage, std::move(message))
      .member(fmt::format("reward_function_kwargs.{}", name));
}

Result<std::vector<double>> TakeOptions(std::string_view reward, std::span<const Option> known,
                                        const RewardOptions& given) {
  std::vector<std::string> names;
  for (const Option& option : known) names.emplace_back(option.name);
  for (const auto& [name, value] : given) {
    if (std::ranges::find(names, name) != names.end()) continue;
    Error error = OptionError(name, fmt::format("the reward {} has no such option", reward));
    const std::optional<std::string> near = ClosestWord(name, names);
    if (near) return std::move(error).hint(fmt::format("did you mean {}?", *near));
    return error;
  }
  std::vector<double> values;
  for (const Option& option : known) {
    const auto found = given.find(option.name);
    if (found == given.end() && !option.standard)
      return OptionError(option.name, fmt::format("the reward {} needs it", reward));
    const double value = found == given.end() ? *option.standard : found->second;
    if (!(value >= option.least && value <= option.most))
      return OptionError(option.name, fmt::format("{} is out of range: expected {} to {}", value,
                                                  option.least, option.most));
    values.push_back(value);
  }
  return values;
}

Scores Weighted(const RuleScore& score, double format_weight) {
  return {
      {std::string(kOverall), (1 - format_weight) * score.accuracy + format_weight * score.format},
      {"accuracy", score.accuracy},
      {"format", score.format}};
}

Made MakeWeighted(std::string_view name, const RewardOptions& given, double standard,
                  RuleScore (*rule)(std::string_view, std::string_view)) {
  const Option known[] = {{"format_weight", standard, 0, 1}};
  NXDKIT_ASSIGN(const std::vector<double> values, TakeOptions(name, known, given));
  return MakeRule([rule, weight = values[0]](const RewardSample& sample) {
    return Weighted(rule(sample.response, sample.ground_truth), weight);
  });
}

Made MakeMath(const RewardOptions& given) { return MakeWeighted("math", given, 0.1, ScoreMath); }
Made MakeR1v(const RewardOptions& given) { return MakeWeighted("r1v", given, 0.5, ScoreR1v); }

Made MakeDapo(const RewardOptions& given) {
  const Option known[] = {{"max_response_length", std::nullopt, 1},
                          {"overlong_buffer_length", std::nullopt, 1},
                          {"overlong_penalty_factor", std::nullopt}};
  NXDKIT_ASSIGN(const std::vector<double> values, TakeOptions("dapo", known, given));
  if (values[1] > values[0])
    return OptionError(
        "overlong_buffer_length",
        fmt::format("{} is more than the max_response_length of {}", values[1], values[0]));
  const Overlong overlong = {static_cast<int64_t>(values[0]), static_cast<int64_t>(values[1])};
  return MakeRule([overlong, factor = values[2]](const RewardSample& sample) {
    const double accuracy = DapoAccuracy(sample.response, sample.ground_truth);
    const double penalty = OverlongPenalty(overlong, sample.tokens);
    return Scores{{std::string(kOverall), accuracy + penalty * factor},
                  {"accuracy", accuracy},
                  {"overlong", penalty},
                  {"accuracy_normalized", (accuracy + 1) / 2}};
  });
}

Made MakeExact(const RewardOptions& given) {
  NXDKIT_TRY(TakeOptions("exact", {}, given));
  return MakeRule([](const RewardSample& sample) {
    const double same = Strip(sample.response) == Strip(sample.ground_truth) ? 1 : 0;
    return Scores{{std::string(kOverall), same}, {"accuracy", same}};
  });
}

Made MakeExec(std::string_view command, const RewardOptions& given) {
  const Option known[] = {{"timeout_s", 300, 0.001, 1e6}};
  NXDKIT_ASSIGN(const std::vector<double> values, TakeOptions("exec", known, given));
  return MakeExecReward(std::string(command), values[0]);
}

constexpr std::string_view kMathTags[] = {kThink, kThinkEnd};
constexpr std::string_view kR1vTags[] = {kThink, kThinkEnd, kAnswer, kAnswerEnd};

struct BuiltIn {
  const char* name;
  Made (*make)(const RewardOptions& options);
  std::span<const std::string_view> tags{};
};
constexpr BuiltIn kBuiltIn[] = {{"math", MakeMath, kMathTags},
                                {"r1v", MakeR1v, kR1vTags},
                                {"dapo", MakeDapo},
                                {"exact", MakeExact}};

}  // namespace

std::span<const std::string_view> FormatTags(std::string_view name, const RewardOptions& options) {
  const auto weight = options.find("format_weight");
  if (weight != options.end() && weight->second == 0) return {};
  for (const BuiltIn& one : kBuiltIn)
    if (name == one.name) return one.tags;
  return {};
}

Result<std::unique_ptr<Reward>> MakeReward(std::string_view name, const RewardOptions& options) {
  constexpr std::string_view kExec = "exec:";
  if (name.starts_with(kExec)) return MakeExec(name.substr(kExec.size()), options);
  std::vector<std::string> names;
  for (const BuiltIn& one : kBuiltIn) {
    if (name == one.name) return one.make(options);
    names.emplace_back(one.name);
  }
  Error error = BadUsage("'{}' is not one of {}, nor exec:PROGRAM", EscapeControl(name),
                         fmt::join(names, ", "))
                    .member("worker.reward.reward_function");
  if (const auto near = ClosestWord(name, names))
    return std::move(error).hint(fmt::format("did you mean {}?", *near));
  return error;
}

}  // namespace nxdkit::trainer
