#include "trainer/loop/update_policy.h"

#include <atomic>
#include <string>
#include <vector>

#include "lib/base/errors.h"

namespace nxdkit::trainer {
namespace {

// One sample of a micro-batch, with the model's outputs for its tokens and the places for their
// gradient.
struct SampleOutputs {
  const Sample& sample;
  std::span<const float> outputs;
  std::span<float> gradient;
};

// Sets the gradients of one micro-batch of a mini-batch and adds to `metrics`. Called from the
// threads of several ranks at the same time.
using SampleLoss = std::function<Status(const MiniBatch& mini_batch,
                                        std::span<const SampleOutputs> rows, Metrics& metrics)>;

// One update; the losses of its micro-batches add to `metrics`. `count` is called with the rows of
// each.
Result<UpdateResult> UpdateOnce(MeshModel& model, std::span<const Sample> samples,
                                std::span<const Row> rows,
                                const std::vector<std::vector<size_t>>& shares,
                                const SampleLoss& loss, double lr,
                                const std::function<void(size_t)>& count, Metrics& metrics) {
  MiniBatch mini_batch;
  for (const std::vector<size_t>& share : shares)
    for (const size_t row : share) {
      mini_batch.rows += 1;
      mini_batch.tokens += static_cast<int64_t>(samples[row].response_tokens());
    }
  std::vector<Metrics> of_ranks(shares.size());  // data-parallel ones
  const auto on_rank = [&](int dp_rank, bool record, std::span<const size_t> chosen,
                           std::span<const float> outputs, std::span<float> gradient) {
    if (record) count(chosen.size());
    std::vector<SampleOutputs> seen;
    size_t at = 0;
    for (const size_t r : chosen) {
      const size_t tokens = samples[r].response_tokens();
      seen.push_back({samples[r], outputs.subspan(at, tokens), gradient.subspan(at, tokens)});
      at += tokens;
    }
    Metrics unseen;
    return loss(mini_batch, seen, record ? of_ranks[static_cast<size_t>(dp_rank)] : unseen);
  };
  NXDKIT_ASSIGN(const UpdateResult updated, model.Update(rows, shares, on_rank, lr));
  for (const Metrics& of_rank : of_ranks) metrics.Merge(of_rank);
  return updated;
}

// Also adds <group>/grad_norm, lr and skipped_updates.
Result<UpdateSummary> UpdateInMiniBatches(MeshModel& model, const std::string& group,
                                          std::span<const Sample> samples,
                                          const MiniBatchOptions& options, const SampleLoss& loss,
                                          Metrics& metrics) {
  const size_t dp = static_cast<size_t>(model.options().dp);
  const size_t own = samples.size() / dp;
  const size_t step = static_cast<size_t>(options.rows_per_update);
  if (samples.size() % dp != 0 || step == 0 || own % step != 0)
    return BadUsage(
        "{} samples cannot be divided over {} data parallel ranks in updates of {} rows each",
        samples.size(), dp, step);
  std::atomic<int64_t> done = 0;
  const auto count = [&](size_t seen) {
    if (options.progress)
      options.progress(done += static_cast<int64_t>(seen), std::ssize(samples) * options.epochs);
  };
  const std::vector<Row> rows = RowsOf(samples);
  UpdateSummary summary;
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch)
    for (size_t first = 0; first < own; first += step) {
      std::vector<std::vector<size_t>> shares(dp);
      for (size_t d = 0; d < dp; ++d)
        for (size_t i = 0; i < step; ++i) shares[d].push_back(d * own + first + i);
      NXDKIT_ASSIGN(const UpdateResult updated,
                    UpdateOnce(model, samples, rows, shares, loss, options.lr, count, metrics));
      metrics.Add(group + "/grad_norm", updated.grad_norm);
      summary.updates += 1;
      summary.skipped += updated.skipped;
      summary.moved = summary.moved || (!updated.skipped && updated.grad_norm > 0);
    }
  metrics.Set(group + "/lr", options.lr);
  metrics.Set(group + "/skipped_updates", static_cast<double>(summary.skipped));
  return summary;
}

void Record(const PolicyMetrics& found, const PolicyLossOptions& options, Metrics& metrics) {
  metrics.Add("actor/pg_loss", found.pg_loss);
  metrics.Add("actor/ppo_kl", found.ppo_kl);
  metrics.Add("actor/entropy_loss", found.entropy_loss);
  // The other losses gate nothing.
  if (options.type != LossType::kCispo && options.type != LossType::kSapo) {
    metrics.Add("actor/pg_clipfrac_higher", found.clip_fraction_higher);
    metrics.Add("actor/pg_clipfrac_lower", found.clip_fraction_lower);
  }
  if (!options.kl) return;
  // Weighted like this it is the KL term of the loss that was minimised, however the micro-batches
  // are cut. EasyR1 logs only the last micro-batch.
  metrics.Add("actor/kl_loss", found.kl_loss, static_cast<double>(found.tokens));
  metrics.Add("actor/kl_coef", options.kl_coef);
}

}  // namespace

Result<UpdateSummary> UpdatePolicy(MeshModel& actor, std::span<const Sample> samples,
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

Result<UpdateSummary> UpdateCritic(MeshModel& critic, std::span<const Sample> samples,
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
