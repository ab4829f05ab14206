#include "trainer/algo/policy_loss.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/base/errors.h"
#include "trainer/algo/names.h"

namespace nxdkit::trainer {
namespace {

constexpr Named<LossType> kLossNames[] = {
    {"default", LossType::kDefault},
    {"gspo", LossType::kGspo},
    {"gspo_token", LossType::kGspoToken},
    {"cispo", LossType::kCispo},
    {"sapo", LossType::kSapo},
};

constexpr double kMaxLogRatio = 20;

double Ratio(double log_ratio) {
  return std::exp(std::clamp(log_ratio, -kMaxLogRatio, kMaxLogRatio));
}

double ClippedRatio(const PolicyLossOptions& options, double log_ratio) {
  return std::exp(
      std::clamp(log_ratio, std::log(1 - options.clip_low), std::log(1 + options.clip_high)));
}

// The derivative of Ratio is Ratio inside its bounds, and 0 outside.
bool InBounds(double log_ratio) { return std::abs(log_ratio) <= kMaxLogRatio; }

TokenLoss Clipped(const PolicyLossOptions& options, double advantage, double log_ratio) {
  const double ratio = Ratio(log_ratio);
  const double plain = -advantage * ratio;
  const double clipped = -advantage * ClippedRatio(options, log_ratio);
  TokenLoss token;
  token.clipped_high = plain < clipped;
  token.loss = std::max(plain, clipped);
  if (advantage < 0) {
    const double most = -advantage * options.clip_dual;
    token.clipped_low = token.loss > most;
    token.loss = std::min(token.loss, most);
  }
  const bool flat = token.clipped_high || token.clipped_low || !InBounds(log_ratio);
  token.gradient = flat ? 0 : plain;
  return token;
}

TokenLoss Cispo(const PolicyLossOptions& options, double advantage, double log_prob,
                double log_ratio) {
  const double slope = -advantage * ClippedRatio(options, log_ratio);
  return {.loss = slope * log_prob, .gradient = slope};
}

TokenLoss Sapo(const PolicyLossOptions& options, double advantage, double log_ratio) {
  const double tau = advantage < 0 ? options.tau_negative : options.tau_positive;
  const double ratio = Ratio(log_ratio);
  const double gate = 1 / (1 + std::exp(-tau * (ratio - 1)));
  const double slope = InBounds(log_ratio) ? 4 * gate * (1 - gate) * ratio : 0;
  return {.loss = -advantage * (4 / tau) * gate, .gradient = -advantage * slope};
}

bool HasRowRatio(LossType type) { return type == LossType::kGspo || type == LossType::kGspoToken; }

Status CheckLengths(const PolicyLossOptions& options, size_t index, const PolicyRow& row) {
  const size_t tokens = row.log_probs.size();
  const size_t ref = options.kl ? row.ref_log_probs.size() : tokens;
  if (row.old_log_probs.size() == tokens && row.advantages.size() == tokens &&
      row.gradient.size() == tokens && ref == tokens)
    return OkStatus();
  return Error(Errc::kInternal,
               fmt::format("{} log-probabilities, but {} old ones, {} of the reference, {} "
                           "advantages and room for {} gradients",
                           tokens, row.old_log_probs.size(), row.ref_log_probs.size(),
                           row.advantages.size(), row.gradient.size()))
      .member(fmt::format("row {}", index));
}

double MeanLogRatio(const PolicyRow& row) {
  double sum = 0;
  for (size_t t = 0; t < row.log_probs.size(); ++t)
    sum += double{row.log_probs[t]} - row.old_log_probs[t];
  return sum / static_cast<double>(row.log_probs.size());
}

// The sums of one micro-batch, row by row.
class MicroBatch {
 public:
  MicroBatch(const PolicyLossOptions& options, const LossWeights& weights, int64_t tokens)
      : options_(options), weights_(weights), token_share_(1 / static_cast<double>(tokens)) {
    metrics_.tokens = tokens;
  }

  void AddRow(const PolicyRow& row) {
    const size_t tokens = row.log_probs.size();
    const int64_t length = static_cast<int64_t>(tokens);
    const double in_gradient = weights_.gradient(length);
    const double in_average = weights_.average(length);
    const double row_ratio = HasRowRatio(options_.type) ? MeanLogRatio(row) : 0;
    gradient_.resize(tokens);
    double row_gradient = 0;
    for (size_t t = 0; t < tokens; ++t) {
      const double log_prob = row.log_probs[t];
      const double difference = log_prob - row.old_log_probs[t];
      const double log_ratio = HasRowRatio(options_.type) ? row_ratio : difference;
      const TokenLoss token = PolicyTokenLoss(options_, row.advantages[t], log_prob, log_ratio);
      KlToken kl;
      if (options_.kl) kl = EstimateKl(*options_.kl, log_prob, row.ref_log_probs[t]);
      metrics_.pg_loss += token.loss * in_average;
      metrics_.kl_loss += kl.value * in_average;
      metrics_.entropy_loss -= log_prob * in_average;
      metrics_.ppo_kl -= difference * token_share_;
      metrics_.clip_fraction_higher += token.clipped_high ? token_share_ : 0;
      metrics_.clip_fraction_lower += token.clipped_low ? token_share_ : 0;
      metrics_.loss += (token.loss + options_.kl_coef * kl.value) * in_gradient;
      gradient_[t] = options_.kl_coef * kl.gradient * in_gradient;
      if (options_.type == LossType::kGspo)
        row_gradient += token.gradient * in_gradient;
      else
        gradient_[t] += token.gradient * in_gradient;
    }
    const double spread = row_gradient / static_cast<double>(length);
    for (size_t t = 0; t < tokens; ++t) row.gradient[t] = static_cast<float>(gradient_[t] + spread);
  }
  const PolicyMetrics& metrics() const { return metrics_; }

 private:
  const PolicyLossOptions& options_;
  const LossWeights& weights_;
  double token_share_;
  PolicyMetrics metrics_;
  std::vector<double> gradient_;
};

// A gradient can be 0 although its inputs are not finite.
Status CheckFinite(size_t index, const PolicyRow& row) {
  for (size_t t = 0; t < row.gradient.size(); ++t)
    if (!std::isfinite(row.gradient[t]) || !std::isfinite(row.log_probs[t]) ||
        !std::isfinite(row.old_log_probs[t]))
      return Corrupt(
                 "token {} has log-probability {}, old {}, advantage {}, gradient {}: expected "
                 "finite numbers",
                 t, row.log_probs[t], row.old_log_probs[t], row.advantages[t], row.gradient[t])
          .member(fmt::format("row {}", index));
  return OkStatus();
}

}  // namespace

Result<LossType> ParseLossType(std::string_view name) {
  return FindNamed(kLossNames, "worker.actor.loss_type", name);
}

Status CheckPolicyLossOptions(const PolicyLossOptions& options) {
  struct Bound {
    const char* setting;
    double value;
    bool good;
    const char* expected;
  };
  const Bound bounds[] = {
      {"clip_ratio_low", options.clip_low, options.clip_low >= 0 && options.clip_low <= 1,
       "from 0 to 1"},
      {"clip_ratio_high", options.clip_high, options.clip_high >= 0, "at least 0"},
      {"clip_ratio_dual", options.clip_dual, options.clip_dual > 1, "more than 1"},
      {"tau_positive", options.tau_positive, options.tau_positive > 0, "more than 0"},
      {"tau_negative", options.tau_negative, options.tau_negative > 0, "more than 0"},
  };
  for (const Bound& bound : bounds)
    if (!bound.good || !std::isfinite(bound.value))
      return BadUsage("{} is out of range: expected a finite number, {}", bound.value,
                      bound.expected)
          .member(fmt::format("worker.actor.{}", bound.setting));
  return OkStatus();
}

TokenLoss PolicyTokenLoss(const PolicyLossOptions& options, double advantage, double log_prob,
                          double log_ratio) {
  if (options.type == LossType::kCispo) return Cispo(options, advantage, log_prob, log_ratio);
  if (options.type == LossType::kSapo) return Sapo(options, advantage, log_ratio);
  return Clipped(options, advantage, log_ratio);
}

Result<PolicyMetrics> ComputePolicyLoss(const PolicyLossOptions& options,
                                        const MiniBatch& mini_batch,
                                        std::span<const PolicyRow> rows) {
  int64_t tokens = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    NXDKIT_TRY(CheckLengths(options, i, rows[i]));
    tokens += std::ssize(rows[i].log_probs);
  }
  const int64_t count = std::ssize(rows);
  NXDKIT_TRY(CheckMicroBatch(mini_batch, count, tokens));
  if (tokens == 0) return PolicyMetrics();
  const LossWeights weights(options.average, mini_batch, count, tokens);
  MicroBatch micro_batch(options, weights, tokens);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].log_probs.empty()) continue;
    micro_batch.AddRow(rows[i]);
    NXDKIT_TRY(CheckFinite(i, rows[i]));
  }
  return micro_batch.metrics();
}

}  // namespace nxdkit::trainer
