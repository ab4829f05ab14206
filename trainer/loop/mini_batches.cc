#include "trainer/loop/mini_batches.h"

#include <fmt/core.h>

#include <atomic>
#include <vector>

namespace nxdkit::trainer {
namespace {

// One mini-batch, seen by the ranks.
class MiniBatchLoss {
 public:
  MiniBatchLoss(std::span<const Sample> samples, const SampleLoss& loss,
                const std::vector<std::vector<size_t>>& shares)
      : samples_(samples), loss_(loss), metrics_(shares.size()) {
    for (const std::vector<size_t>& share : shares)
      for (const size_t row : share) {
        mini_batch_.rows += 1;
        mini_batch_.tokens += static_cast<int64_t>(samples[row].response_tokens());
      }
  }

  Status Run(int dp_rank, bool record, std::span<const size_t> chosen,
             std::span<const float> outputs, std::span<float> gradient) {
    std::vector<SampleOutputs> rows;
    size_t at = 0;
    for (const size_t r : chosen) {
      const size_t tokens = samples_[r].response_tokens();
      rows.push_back({samples_[r], outputs.subspan(at, tokens), gradient.subspan(at, tokens)});
      at += tokens;
    }
    Metrics unseen;
    return loss_(mini_batch_, rows, record ? metrics_[static_cast<size_t>(dp_rank)] : unseen);
  }

  void MergeInto(Metrics& metrics) const {
    for (const Metrics& of_rank : metrics_) metrics.Merge(of_rank);
  }

 private:
  const std::span<const Sample> samples_;
  const SampleLoss& loss_;
  MiniBatch mini_batch_;
  std::vector<Metrics> metrics_;  // per data-parallel rank
};

}  // namespace

Result<UpdateSummary> UpdateInMiniBatches(MeshModel& model, const std::string& group,
                                          std::span<const Sample> samples,
                                          const MiniBatchOptions& options, const SampleLoss& loss,
                                          Metrics& metrics) {
  const size_t dp = static_cast<size_t>(model.options().dp);
  const size_t own = samples.size() / dp;
  const size_t step = static_cast<size_t>(options.rows_per_update);
  if (samples.size() % dp != 0 || step == 0 || own % step != 0)
    return Error(Errc::kUsage,
                 fmt::format("{} samples cannot be divided over {} data parallel ranks in updates "
                             "of {} rows each",
                             samples.size(), dp, step));
  std::atomic<int64_t> done = 0;
  const auto count = [&](bool record, size_t seen) {
    if (!options.progress || !record) return;
    const auto now = static_cast<int64_t>(seen);
    options.progress(done += now, std::ssize(samples) * options.epochs);
  };
  std::vector<Row> rows;
  for (const Sample& sample : samples) rows.push_back(sample.row);
  UpdateSummary summary;
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch)
    for (size_t first = 0; first < own; first += step) {
      std::vector<std::vector<size_t>> shares(dp);
      for (size_t d = 0; d < dp; ++d)
        for (size_t i = 0; i < step; ++i) shares[d].push_back(d * own + first + i);
      MiniBatchLoss mini_batch(samples, loss, shares);
      NXDKIT_ASSIGN(const UpdateResult updated,
                    model.Update(
                        rows, shares,
                        [&](int dp_rank, bool record, std::span<const size_t> chosen,
                            std::span<const float> outputs, std::span<float> gradient) {
                          count(record, chosen.size());
                          return mini_batch.Run(dp_rank, record, chosen, outputs, gradient);
                        },
                        options.lr));
      mini_batch.MergeInto(metrics);
      metrics.Add(group + "/grad_norm", updated.grad_norm);
      summary.updates += 1;
      summary.skipped += updated.skipped;
      summary.moved = summary.moved || (!updated.skipped && updated.grad_norm > 0);
    }
  metrics.Set(group + "/lr", options.lr);
  metrics.Set(group + "/skipped_updates", static_cast<double>(summary.skipped));
  return summary;
}

}  // namespace nxdkit::trainer
