// Policy losses on sampled responses, and their gradient by each token's log-probability. The
// model's backward pass begins with that gradient; no graph is kept. Arithmetic is f64.
//
// With D = log_prob - old_log_prob and A the advantage, per token:
//   default      PPO with two clips, ratio exp(D)
//   gspo         the same with one ratio per row, exp(mean of D); its gradient reaches every token
//   gspo_token   the value of gspo, the gradient through the token's own log-probability
//   cispo        -A log_prob * clipped ratio, the ratio without gradient. With clip_low 0 the
//                clipped ratio is at least 1; "no lower bound" is clip_low 1
//   sapo         a soft gate: -A (4 / tau) sigmoid(tau (ratio - 1)), tau by the sign of A
//
// At the bounds of a clamp the gradient passes, as on torch 2.13; on 2.15 it does not.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "trainer/algo/kl.h"
#include "trainer/algo/loss_average.h"

namespace nxdkit::trainer {

enum class LossType { kDefault, kGspo, kGspoToken, kCispo, kSapo };
// Unknown names are errors (the reference takes them for `default`).
Result<LossType> ParseLossType(std::string_view name);

struct PolicyLossOptions {
  LossType type = LossType::kDefault;
  LossAverage average = LossAverage::kToken;
  double clip_low = 0.2;  // ratios are clipped to [1 - clip_low, 1 + clip_high]
  double clip_high = 0.3;
  double clip_dual = 3;  // with A < 0 the loss is at most -A clip_dual
  double tau_positive = 1;
  double tau_negative = 1.05;
  // The KL term of the loss; without an estimator there is none.
  std::optional<KlEstimator> kl = std::nullopt;
  double kl_coef = 0;
};
// kUsage naming the setting that is out of range: 0 <= clip_low <= 1, clip_high >= 0, clip_dual >
// 1, tau > 0, all finite.
Status CheckPolicyLossOptions(const PolicyLossOptions& options);

// The loss of one token before weighting. `log_ratio` is D, or its mean over the row for gspo.
struct TokenLoss {
  double loss = 0;
  double gradient = 0;        // by log_ratio; for cispo by log_prob
  bool clipped_high = false;  // the clip of the ratio made the loss larger
  bool clipped_low = false;   // clip_dual made it smaller
};
TokenLoss PolicyTokenLoss(const PolicyLossOptions& options, double advantage, double log_prob,
                          double log_ratio);

// One response; every span has one element per valid token. The spans are not owned.
struct PolicyRow {
  std::span<const float> log_probs;
  std::span<const float> old_log_probs;
  std::span<const float> ref_log_probs;  // with a KL term only
  std::span<const float> advantages;
  std::span<float> gradient;  // set: gradient of the mini-batch's loss by log_probs
};

// Means over the micro-batch: losses by options.average, the rest over its tokens.
struct PolicyMetrics {
  double pg_loss = 0;
  double kl_loss = 0;
  double entropy_loss = 0;          // mean of -log_prob: a surrogate, not part of the loss
  double ppo_kl = 0;                // mean of old_log_prob - log_prob
  double clip_fraction_higher = 0;  // 0 for cispo and sapo
  double clip_fraction_lower = 0;
  // This micro-batch's share of the mini-batch's loss, whose gradient the rows got.
  double loss = 0;
  int64_t tokens = 0;
};

// One micro-batch. kInternal when the spans of a row differ in length, or the mini-batch is smaller
// than the micro-batch; kCorrupt, naming row and token, when a log-probability or a gradient is not
// finite.
Result<PolicyMetrics> ComputePolicyLoss(const PolicyLossOptions& options,
                                        const MiniBatch& mini_batch,
                                        std::span<const PolicyRow> rows);

}  // namespace nxdkit::trainer
