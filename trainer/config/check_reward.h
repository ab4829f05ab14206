// worker.reward.reward_function: a built-in rule, or a command that scores.
#pragma once

#include <string>

namespace nxdkit::trainer {

class Checker;

enum class RewardKind { kBuiltIn, kCommand, kPython, kUnknown };
struct RewardChoice {
  RewardKind kind = RewardKind::kUnknown;
  std::string name;  // "math"; the command line; or the text as given
  // Whether it names a file of EasyR1's examples, ".../reward_function/math.py:compute_score".
  bool from_example = false;
};
RewardChoice ResolveReward(const std::string& text);

// Part of CheckConfig.
void CheckReward(Checker& check);

}  // namespace nxdkit::trainer
