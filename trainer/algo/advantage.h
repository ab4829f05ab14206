// Advantages of sampled responses: the worth of a response relative to the others of its prompt, or
// to a critic's estimate. Rows are ragged: exactly the valid tokens of a response.
//
// With s the sum of a row's token rewards, over the rows of one group (the samples of one prompt),
// std with n - 1:
//   grpo                 (s - mean) / (std + 1e-6) on every token
//   grpo_passk           the best row only: (best - second best) / (std + 1e-6); others 0
//   rloo                 s - mean of the others
//   remax                s - baseline (the score of a greedy sample); returns: rewards to go
//   reinforce_plus_plus  discounted rewards to go, whitened over the whole batch
//   gae                  generalised advantages of a critic's values, whitened; returns before that
// Statistics are f64, and a group whose scores are all equal has advantages of exactly 0: in f32
// the rounding of the mean, divided by 1e-6, would produce advantages of up to 0.1.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::trainer {

enum class AdvantageEstimator { kGae, kGrpo, kGrpoPassk, kReinforcePlusPlus, kRemax, kRloo };

// Parses a name from the configuration (algorithm.adv_estimator); kUsage for unknown names.
Result<AdvantageEstimator> ParseAdvantageEstimator(std::string_view name);

struct AdvantageOptions {
  AdvantageEstimator estimator = AdvantageEstimator::kGrpo;
  double gamma = 1;     // reinforce_plus_plus, gae
  double lambda = 1;    // gae
  int64_t samples = 1;  // n: rows per group
};

// One response; every span has one element per valid token. The spans are not owned.
struct AdvantageRow {
  uint64_t group = 0;
  std::span<const float> rewards;  // after the KL penalty
  std::span<const float> values;   // gae only
  double baseline = 0;             // remax only
  std::span<float> advantages;     // set
  std::span<float> returns;        // set; the advantages where the estimator has no returns
};

// Computes advantages for the whole batch, before it is split among the ranks. kUsage when fewer
// than two samples would be compared; kCorrupt naming the row or the group when lengths differ, a
// reward, value or baseline is not finite, or a group does not have exactly `samples` rows.
// Thread-safe.
Status ComputeAdvantages(const AdvantageOptions& options, std::span<const AdvantageRow> rows);

}  // namespace nxdkit::trainer
