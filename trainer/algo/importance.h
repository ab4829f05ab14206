// The rollout engine is not quite the trainer's policy: other kernels, other rounding, sometimes
// older weights. Truncated importance weights make up for it (as verl's rollout_is):
//
//   token     w_t = min(exp(log pi_trainer(t) - log pi_engine(t)), C)
//   sequence  w_t = min(exp(sum over the response of the same differences), C), alike for all t
//
// Differences are clamped to +-20 before exp. pi_trainer is the actor before the step's updates
// ("old"). Each token's loss is multiplied by w_t, through which no gradient runs; since every
// policy loss is linear in an advantage of one sign, that is the same as multiplying the advantage.
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

// One response; of equal lengths.
struct ImportanceRow {
  std::span<const float> trainer;  // log-probabilities
  std::span<const float> engine;
};

struct ImportanceStats {
  double mean = 1, min = 1, max = 1;  // of the weights of all tokens, truncated
  double truncated = 0;               // share of tokens whose weight was above C
  double effective = 1;  // effective sample size over their number: 1 when all are equal
};

// The weights of each row's tokens. kUsage, naming the row, for lengths that differ and for
// log-probabilities that are not numbers. `level` must not be kOff.
Result<std::vector<std::vector<float>>> ImportanceWeights(const ImportanceOptions& options,
                                                          std::span<const ImportanceRow> rows,
                                                          ImportanceStats& stats);

}  // namespace nxdkit::trainer
