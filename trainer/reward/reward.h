// Rewards for responses. A reward gives every sample a map of named numbers; the policy learns from
// `overall`, the others are logged.
//
// Built in: math, r1v, dapo, exact (README.md here). "exec:PROGRAM ARGUMENTS" is any program that
// speaks JSON Lines on its standard input and output.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

struct RewardSample {
  std::string_view response;  // without special tokens
  int64_t tokens = 0;         // in the response, with the one that ends it
  std::string_view ground_truth;
};

using Scores = std::map<std::string, double, std::less<>>;
inline constexpr std::string_view kOverall = "overall";

// Hooks of a call of Score; all may be empty. Called by its thread.
struct ScoreHooks {
  std::function<Status()> poll;  // called at least ten times a second; its error ends the call
  std::function<void(size_t scored)> progress;  // the number of samples scored so far
  std::function<void(size_t sample)> bad = {};  // the sample that caused the error of the call
};

// An object serves one thread at a time; its program ends with the thread that started it.
class Reward {
 public:
  virtual ~Reward() = default;
  // One map per sample, in order; every map has `overall`, every number is finite.
  virtual Result<std::vector<Scores>> Score(std::span<const RewardSample> samples,
                                            const ScoreHooks& hooks = {}) = 0;
};

// Numbers by name, as in the configuration (reward_function_kwargs): format_weight (math
// 0.1, r1v 0.5); max_response_length, overlong_buffer_length, overlong_penalty_factor (dapo, all
// three needed); timeout_s (exec: seconds for one batch, 300).
using RewardOptions = std::map<std::string, double, std::less<>>;

// The tags that a response must contain for its format to be right, the first at its very
// beginning: for math and r1v, unless their format_weight is 0. Empty: the reward asks for no known
// format.
std::span<const std::string_view> FormatTags(std::string_view name, const RewardOptions& options);

// kUsage for another name, and for an option that this reward does not have, lacks, or that is out
// of range. A program is looked up here (kNotFound), and started with the first batch.
Result<std::unique_ptr<Reward>> MakeReward(std::string_view name, const RewardOptions& options);

}  // namespace nxdkit::trainer
