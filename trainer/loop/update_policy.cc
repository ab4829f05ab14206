#include "trainer/loop/update_policy.h"

#include <vector>

namespace nxdkit::trainer {
namespace {

void Record(const PolicyMetrics& found, const PolicyLossOptions& options, Metrics& metrics) {
  metrics.Add("actor/pg_loss", found.pg_loss);
  metrics.Add("actor/ppo_kl", found.ppo_kl);
  metrics.Add("actor/entropy_loss", found.entropy_loss);
  // The others gate nothing.
  if (options.type != LossType::kCispo && options.type != LossType::kSapo) {
    metrics.Add("actor/pg_clipfrac_higher", found.clip_fraction_higher);
    metrics.Add("actor/pg_clipfrac_lower", found.clip_fraction_lower);
  }
  if (!options.kl) return;
  // So weighted it is the KL term of the loss that was minimised, whatever the micro-batches are.
  // EasyR1 logs the last micro-batch alone.
  metrics.Add("actor/kl_loss", found.kl_loss, static_cast<double>(found.tokens));
  metrics.Add("actor/kl_coef", options.kl_coef);
}

}  // namespace

Result<UpdateSummary> UpdatePolicy(Actor& actor, std::span<const Sample> samples,
                                   const PolicyLossOptions& loss, const MiniBatchOptions& options,
                                   Metrics& metrics) {
  return UpdateInMiniBatches(
      actor, "actor", samples, options,
      [&](const MiniBatch& mini_batch, std::span<const SampleOutputs> outputs,
          Metrics& to) -> Status {
        std::vector<PolicyRow> rows;
        for (const SampleOutputs& row : outputs)
          rows.push_back({row.outputs, row.sample.old_log_probs, row.sample.ref_log_probs,
                          row.sample.advantages, row.gradient});
        NXDKIT_ASSIGN(const PolicyMetrics found, ComputePolicyLoss(loss, mini_batch, rows));
        Record(found, loss, to);
        return OkStatus();
      },
      metrics);
}

Result<UpdateSummary> UpdateCritic(Critic& critic, std::span<const Sample> samples,
                                   const ValueLossOptions& loss, const MiniBatchOptions& options,
                                   Metrics& metrics) {
  return UpdateInMiniBatches(
      critic, "critic", samples, options,
      [&](const MiniBatch& mini_batch, std::span<const SampleOutputs> outputs,
          Metrics& to) -> Status {
        std::vector<ValueRow> rows;
        for (const SampleOutputs& row : outputs)
          rows.push_back({row.outputs, row.sample.values, row.sample.returns, row.gradient});
        NXDKIT_ASSIGN(const ValueMetrics found, ComputeValueLoss(loss, mini_batch, rows));
        to.Add("critic/vf_loss", found.vf_loss);
        to.Add("critic/vf_clipfrac", found.clip_fraction);
        to.Add("critic/vpred_mean", found.value_mean);
        return OkStatus();
      },
      metrics);
}

}  // namespace nxdkit::trainer
