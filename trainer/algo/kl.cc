#include "trainer/algo/kl.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "lib/base/errors.h"
#include "trainer/algo/names.h"

namespace nxdkit::trainer {
namespace {

constexpr Named<KlEstimator> kEstimators[] = {
    {"kl", KlEstimator::kKl},
    {"abs", KlEstimator::kAbs},
    {"mse", KlEstimator::kMse},
    {"low_var_kl", KlEstimator::kLowVariance},
};
constexpr Named<KlControl> kControls[] = {
    {"fixed", KlControl::kFixed},
    {"adaptive", KlControl::kAdaptive},
};

constexpr double kMaxDifference = 20;
constexpr double kMaxValue = 10;
constexpr double kMaxChange = 0.2;

KlToken LowVariance(double difference) {
  const double d = std::clamp(difference, -kMaxDifference, kMaxDifference);
  const double value = std::expm1(d) - d;
  const bool clamped = d != difference || value > kMaxValue;
  return {std::min(value, kMaxValue), clamped ? 0 : -std::expm1(d)};
}

}  // namespace

Result<KlEstimator> ParseKlEstimator(std::string_view name) {
  if (name == "full")
    return Unsupported(
               "'full' needs the log-probabilities of the whole vocabulary, and only those of the "
               "sampled tokens are made")
        .member("algorithm.kl_penalty")
        .hint("low_var_kl estimates the same divergence");
  return FindNamed(kEstimators, "algorithm.kl_penalty", name);
}

KlToken EstimateKl(KlEstimator estimator, double log_prob, double ref_log_prob) {
  const double difference = log_prob - ref_log_prob;
  switch (estimator) {
    case KlEstimator::kKl:
      return {difference, 1};
    case KlEstimator::kAbs:
      return {std::abs(difference), difference > 0 ? 1.0 : difference < 0 ? -1.0 : 0.0};
    case KlEstimator::kMse:
      return {0.5 * difference * difference, difference};
    case KlEstimator::kLowVariance:
      break;
  }
  return LowVariance(-difference);
}

Result<double> PenalizeRewards(KlEstimator estimator, double beta, std::span<const KlRow> rows) {
  double total = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const KlRow& row = rows[i];
    const size_t tokens = row.rewards.size();
    if (row.log_probs.size() != tokens || row.ref_log_probs.size() != tokens)
      return Error(Errc::kInternal,
                   fmt::format("{} rewards, {} log-probabilities, {} of the reference", tokens,
                               row.log_probs.size(), row.ref_log_probs.size()))
          .member(fmt::format("row {}", i));
    double sum = 0;
    for (size_t t = 0; t < tokens; ++t) {
      const double kl = EstimateKl(estimator, row.log_probs[t], row.ref_log_probs[t]).value;
      row.rewards[t] = static_cast<float>(row.rewards[t] - beta * kl);
      sum += kl;
    }
    if (tokens > 0) total += sum / static_cast<double>(tokens);
  }
  return rows.empty() ? 0 : total / static_cast<double>(rows.size());
}

Result<KlControl> ParseKlControl(std::string_view name) {
  return FindNamed(kControls, "algorithm.kl_type", name);
}

void KlController::Update(double divergence, int64_t rows) {
  if (type == KlControl::kFixed) return;
  const double error = std::clamp(divergence / target - 1, -kMaxChange, kMaxChange);
  beta *= 1 + error * static_cast<double>(rows) / horizon;
}

}  // namespace nxdkit::trainer
