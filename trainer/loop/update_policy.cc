#include "trainer/loop/update_policy.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace nxdkit::trainer {
namespace {

// One mini-batch, seen by the ranks.
class MiniBatchLoss {
 public:
  MiniBatchLoss(std::span<const Sample> samples, const PolicyLossOptions& options,
                const std::vector<std::vector<size_t>>& shares)
      : samples_(samples), options_(options), metrics_(shares.size()) {
    for (const std::vector<size_t>& share : shares)
      for (const size_t row : share) {
        mini_batch_.rows += 1;
        mini_batch_.tokens += static_cast<int64_t>(samples[row].response_tokens());
      }
  }

  Status Run(int dp_rank, bool record, std::span<const size_t> chosen,
             std::span<const float> log_probs, std::span<float> gradient) {
    std::vector<PolicyRow> rows;
    size_t at = 0;
    for (const size_t r : chosen) {
      const Sample& sample = samples_[r];
      const size_t tokens = sample.response_tokens();
      rows.push_back({log_probs.subspan(at, tokens), sample.old_log_probs, sample.ref_log_probs,
                      sample.advantages, gradient.subspan(at, tokens)});
      at += tokens;
    }
    NXDKIT_ASSIGN(const PolicyMetrics found, ComputePolicyLoss(options_, mini_batch_, rows));
    if (record) Record(found, metrics_[static_cast<size_t>(dp_rank)]);
    return OkStatus();
  }

  void MergeInto(Metrics& metrics) const {
    for (const Metrics& of_rank : metrics_) metrics.Merge(of_rank);
  }

 private:
  void Record(const PolicyMetrics& found, Metrics& metrics) const {
    metrics.Add("actor/pg_loss", found.pg_loss);
    metrics.Add("actor/ppo_kl", found.ppo_kl);
    metrics.Add("actor/entropy_loss", found.entropy_loss);
    metrics.Add("actor/pg_clipfrac_higher", found.clip_fraction_higher);
    metrics.Add("actor/pg_clipfrac_lower", found.clip_fraction_lower);
    if (!options_.kl) return;
    // So weighted it is the KL term of the loss that was minimised, whatever the micro-batches are.
    // EasyR1 logs the last micro-batch alone.
    metrics.Add("actor/kl_loss", found.kl_loss, static_cast<double>(found.tokens));
    metrics.Add("actor/kl_coef", options_.kl_coef);
  }

  const std::span<const Sample> samples_;
  const PolicyLossOptions& options_;
  MiniBatch mini_batch_;
  std::vector<Metrics> metrics_;  // per data-parallel rank
};

}  // namespace

Result<UpdatePolicyResult> UpdatePolicy(Actor& actor, std::span<const Sample> samples,
                                        const UpdatePolicyOptions& options, Metrics& metrics) {
  const size_t dp = static_cast<size_t>(actor.options().dp);
  const size_t own = samples.size() / dp;
  const size_t step = static_cast<size_t>(options.rows_per_update);
  if (samples.size() % dp != 0 || step == 0 || own % step != 0)
    return Error(Errc::kUsage,
                 fmt::format("{} samples cannot be divided over {} data parallel ranks in updates "
                             "of {} rows each",
                             samples.size(), dp, step));
  std::vector<Row> rows;
  for (const Sample& sample : samples) rows.push_back(sample.row);
  UpdatePolicyResult result;
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch)
    for (size_t first = 0; first < own; first += step) {
      std::vector<std::vector<size_t>> shares(dp);
      for (size_t d = 0; d < dp; ++d)
        for (size_t i = 0; i < step; ++i) shares[d].push_back(d * own + first + i);
      MiniBatchLoss loss(samples, options.loss, shares);
      NXDKIT_ASSIGN(const UpdateResult updated,
                    actor.Update(
                        rows, shares,
                        [&](int dp_rank, bool record, std::span<const size_t> chosen,
                            std::span<const float> log_probs, std::span<float> gradient) {
                          return loss.Run(dp_rank, record, chosen, log_probs, gradient);
                        },
                        options.lr));
      loss.MergeInto(metrics);
      metrics.Add("actor/grad_norm", updated.grad_norm);
      result.updates += 1;
      result.skipped += updated.skipped;
      result.moved = result.moved || (!updated.skipped && updated.grad_norm > 0);
    }
  metrics.Set("actor/lr", options.lr);
  metrics.Set("actor/skipped_updates", static_cast<double>(result.skipped));
  return result;
}

}  // namespace nxdkit::trainer
