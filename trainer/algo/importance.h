// The rollout engine is not quite the trainer's policy: other kernels, other rounding, sometimes
// older weights. Truncated importance weights correct for the difference (as verl's rollout_is):
//
//   token     w_t = min(exp(log pi_trainer(t) - log pi_engine(t)), C)
//   sequence  w_t = min(exp(sum over the response of the same differences), C), the same for all t
//
// Differences are clamped to +-20 before exp. pi_trainer is the actor before the step's updates
// ("old"). Each token's loss is multiplied by w_t, which carries no gradient; since every policy
// loss is linear in an advantage of one sign, that is the same as multiplying the advantage.
// Source: verl, trainer/ppo rollout importance sampling; Yao et al., "Your efficient RL framework
// secretly brings you off-policy RL training" (2025).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

enum class ImportanceLevel { kOff, kToken, kSequence };
Result<ImportanceLevel> ParseImportanceLevel(std::string_view name);  // off, token, sequence

struct ImportanceOptions {
  ImportanceLevel level = ImportanceLevel::kOff;
  double threshold = 2;  // C; above 0
};

// One response; the two spans have equal lengths.
struct ImportanceRow {
  std::span<const float> trainer;  // log-probabilities
  std::span<const float> engine;
};

struct ImportanceStats {
  double mean = 1, min = 1, max = 1;  // over the truncated weights of all tokens
  double truncated = 0;               // share of tokens whose weight was above C
  double effective = 1;  // effective sample size per token: 1 when all weights are equal
};

// The weights of each row's tokens. kUsage, naming the row, when lengths differ or a
// log-probability is not finite. `level` must not be kOff.
Result<std::vector<std::vector<float>>> ImportanceWeights(const ImportanceOptions& options,
                                                          std::span<const ImportanceRow> rows,
                                                          ImportanceStats& stats);

}  // namespace nxdkit::trainer
