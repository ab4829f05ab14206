// The divergence of a policy from the reference policy, token by token, and the two ways to limit
// it: a term of the loss, or a penalty in the rewards.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::trainer {

// kl:         l - r                   unbiased; as a loss its expected gradient says nothing
// abs:        |l - r|
// mse:        (l - r)^2 / 2
// low_var_kl: e^d - d - 1, d = r - l clamped to +-20, the whole clamped to +-10; no gradient where
//             clamped, so a token that drifted far (d > 2.61 or d < -11) is not pulled back
enum class KlEstimator { kKl, kAbs, kMse, kLowVariance };

// `full` in the reference needs the log-probabilities of the whole vocabulary: kUnsupported here.
Result<KlEstimator> ParseKlEstimator(std::string_view name);

struct KlToken {
  double value = 0;
  double gradient = 0;  // by log_prob
};
KlToken EstimateKl(KlEstimator estimator, double log_prob, double ref_log_prob);

// One response; a span has one element per valid token.
struct KlRow {
  std::span<const float> log_probs;  // from the policy that sampled
  std::span<const float> ref_log_probs;
  std::span<float> rewards;  // -= beta * kl
};
// Subtracts the penalty from every row; returns the mean over rows of the mean over tokens of the
// divergence (actor/kl_penalty). kInternal when the spans of a row differ in length.
Result<double> PenalizeRewards(KlEstimator estimator, double beta, std::span<const KlRow> rows);

enum class KlControl { kFixed, kAdaptive };
Result<KlControl> ParseKlControl(std::string_view name);

// The coefficient of the penalty. `beta` is state: a checkpoint saves it.
struct KlController {
  KlControl type = KlControl::kFixed;
  double beta = 0;
  double target = 0.1;
  double horizon = 10000;
  // Called after a step with this mean divergence over `rows` responses. Adaptive: beta grows or
  // shrinks by at most a fifth of rows / horizon.
  void Update(double divergence, int64_t rows);
};

}  // namespace nxdkit::trainer
