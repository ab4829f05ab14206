#include "trainer/config/check_reward.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/text.h"
#include "lib/system/paths.h"
#include "trainer/config/checker.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kReward = "worker.reward.reward_function";
constexpr std::string_view kBuiltIn[] = {"math", "r1v", "dapo", "exact"};

bool IsNumber(const Value& value) {
  return value.kind == ValueKind::kInt || value.kind == ValueKind::kDouble;
}

void CheckKwargs(Checker& check) {
  for (const ValueEntry& entry : check.config().worker.reward.reward_function_kwargs.entries)
    if (!IsNumber(entry.value))
      check.Problem("worker.reward.reward_function_kwargs",
                    fmt::format("{} is {}; rewards take numbers only", EscapeControl(entry.key),
                                ValueKindText(entry.value.kind)));
}

void CheckDapo(Checker& check) {
  for (const char* name :
       {"max_response_length", "overlong_buffer_length", "overlong_penalty_factor"}) {
    const Value* value = check.config().worker.reward.reward_function_kwargs.Find(name);
    if (value == nullptr || !IsNumber(*value))
      check.Problem("worker.reward.reward_function_kwargs",
                    fmt::format("dapo needs the number {}", name));
  }
}

void CheckCommand(Checker& check, const std::string& command) {
  const std::string program = command.substr(0, command.find(' '));
  if (program.empty())
    check.Problem(kReward, "exec: names no command", "write exec:COMMAND");
  else if (program.find('/') != std::string::npos)
    CheckPath(check, kReward, program, PathKind::kFile);
}

}  // namespace

RewardChoice ResolveReward(const std::string& text) {
  if (std::ranges::find(kBuiltIn, text) != std::end(kBuiltIn))
    return {RewardKind::kBuiltIn, text, false};
  if (text.starts_with("exec:")) return {RewardKind::kCommand, text.substr(5), false};
  const std::string file = text.substr(0, text.rfind(':'));
  if (!file.ends_with(".py")) return {RewardKind::kUnknown, text, false};
  const std::string rule = BaseName(file).substr(0, BaseName(file).size() - 3);
  const std::string folder = BaseName(ParentPath(file));
  const std::string function = text.substr(text.rfind(':') + 1);
  // An earlier release had examples/score_function/math.py:math_compute_score.
  const bool example = (folder == "reward_function" || folder == "score_function") &&
                       (function == "compute_score" || function == rule + "_compute_score") &&
                       std::ranges::find(kBuiltIn, rule) != std::end(kBuiltIn);
  if (example) return {RewardKind::kBuiltIn, rule, true};
  return {RewardKind::kPython, text, false};
}

void CheckReward(Checker& check) {
  const std::optional<std::string>& text = check.config().worker.reward.reward_function;
  const std::string known = "known: math, r1v, dapo, exact, exec:COMMAND";
  if (!text) return check.Problem(kReward, "no reward function is named", known);
  const RewardChoice choice = ResolveReward(*text);
  const std::string shown = EscapeControl(*text);
  if (choice.kind == RewardKind::kUnknown)
    return check.Problem(kReward, fmt::format("\"{}\" is not known", shown), known);
  if (choice.kind == RewardKind::kPython)
    return check.Problem(kReward, fmt::format("{}: Python functions are not called", shown),
                         "wrap it in a command that reads and writes JSON lines: "
                         "exec:python3 score.py",
                         Errc::kUnsupported);
  CheckKwargs(check);
  if (choice.from_example)
    check.Note(
        fmt::format("{} {} is not run; the built-in rule {} is used", kReward, shown, choice.name));
  if (choice.kind == RewardKind::kCommand) CheckCommand(check, choice.name);
  if (choice.kind == RewardKind::kBuiltIn && choice.name == "dapo") CheckDapo(check);
}

}  // namespace nxdkit::trainer
