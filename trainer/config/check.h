// The rules a configuration must keep, all checked before anything is loaded, all violations
// reported together, each with its numbers and what would be right.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/load.h"
#include "trainer/config/plan.h"
#include "trainer/config/problems.h"

namespace nxdkit::trainer {

struct CheckOptions {
  // Whether files and folders that are named must be there: format_prompt, model_path, ...
  bool files = true;
};

struct ConfigCheck {
  std::vector<ConfigProblem> problems;
  // What the user should know: keys that are set and have no effect, traps of the algorithm.
  std::vector<std::string> notes;
  RunPlan plan;  // exact when there are no problems

  Status status() const;  // ProblemsError when there are any
};

// Words, limits, core allocation, batch arithmetic, and what this trainer does not do. Problems of
// what is not built are kUnsupported, of missing files kNotFound, all others kUsage.
ConfigCheck CheckConfig(const LoadedConfig& loaded, const CheckOptions& options = {});

// What of a model's config.json the parallelism depends on.
struct ModelFacts {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t vocab = 0;
  int64_t intermediate = 0;
  int64_t max_positions = 0;  // 0: not known
};

// Rules that need the model: heads, vocabulary and intermediate size over both tensor-parallel
// sizes, and P + R within its positions. The critic has those of training only.
std::vector<ConfigProblem> CheckModel(const LoadedConfig& loaded, const ModelFacts& model);
std::vector<ConfigProblem> CheckCriticModel(const LoadedConfig& loaded, const ModelFacts& model);

// A rollout bundle is compiled: worker.rollout must ask for what neuron_config.json in `folder`
// says. Part of CheckConfig.
std::vector<ConfigProblem> CheckBundle(const LoadedConfig& loaded, const std::string& folder);

// worker.reward.reward_function: a rule that is built in, or a command that scores.
enum class RewardKind { kBuiltIn, kCommand, kPython, kUnknown };
struct RewardChoice {
  RewardKind kind = RewardKind::kUnknown;
  std::string name;  // "math"; the command line; or the text as it stands
  // Given as a file of EasyR1's examples, ".../reward_function/math.py:compute_score".
  bool from_example = false;
};
RewardChoice ResolveReward(const std::string& text);

}  // namespace nxdkit::trainer
