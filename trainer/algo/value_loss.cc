#include "trainer/algo/value_loss.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "lib/base/errors.h"

namespace nxdkit::trainer {
namespace {

Status CheckRow(size_t index, const ValueRow& row) {
  const size_t tokens = row.values.size();
  if (row.old_values.size() == tokens && row.returns.size() == tokens &&
      row.gradient.size() == tokens)
    return OkStatus();
  return Error(Errc::kInternal,
               fmt::format("{} values, but {} old ones, {} returns and room for {} gradients",
                           tokens, row.old_values.size(), row.returns.size(), row.gradient.size()))
      .member(fmt::format("row {}", index));
}

enum class Side { kValue, kTie, kClipped };

// The larger of the two squares, compared in f32 as in the reference. At a tie with a clipped
// value, torch.max gives half of the gradient to either side, and the clipped side passes none on.
Side SideOf(const ValueLossOptions& options, float value, float old, float wanted) {
  const auto range = static_cast<float>(options.clip_range);
  const float clipped = std::clamp(value, old - range, old + range);
  const float error = (value - wanted) * (value - wanted);
  const float clipped_error = (clipped - wanted) * (clipped - wanted);
  if (error < clipped_error) return Side::kClipped;
  return error == clipped_error && clipped != value ? Side::kTie : Side::kValue;
}

Status AddRow(const ValueLossOptions& options, const LossWeights& weights, size_t index,
              const ValueRow& row, ValueMetrics& metrics) {
  const int64_t length = std::ssize(row.values);
  const double in_gradient = weights.gradient(length);
  const double in_average = weights.average(length);
  const double token_share = 1 / static_cast<double>(metrics.tokens);
  for (size_t t = 0; t < row.values.size(); ++t) {
    const double value = row.values[t];
    const double old = row.old_values[t];
    const double clipped = std::clamp(value, old - options.clip_range, old + options.clip_range);
    const double error = value - row.returns[t];
    const double clipped_error = clipped - row.returns[t];
    const Side side = SideOf(options, row.values[t], row.old_values[t], row.returns[t]);
    const bool is_clipped = side == Side::kClipped;
    const double used = is_clipped ? clipped_error : error;
    metrics.vf_loss += 0.5 * used * used * in_average;
    metrics.loss += 0.5 * used * used * in_gradient;
    metrics.clip_fraction += is_clipped ? token_share : 0;
    metrics.value_mean += value * token_share;
    const double share = is_clipped ? 0 : side == Side::kTie ? 0.5 : 1;
    row.gradient[t] = static_cast<float>(share * error * in_gradient);
    if (!std::isfinite(used))
      return Corrupt("the error of token {} is {} (value {}, return {})", t, used, value,
                     row.returns[t])
          .member(fmt::format("row {}", index));
  }
  return OkStatus();
}

}  // namespace

Result<ValueMetrics> ComputeValueLoss(const ValueLossOptions& options, const MiniBatch& mini_batch,
                                      std::span<const ValueRow> rows) {
  ValueMetrics metrics;
  for (size_t i = 0; i < rows.size(); ++i) {
    NXDKIT_TRY(CheckRow(i, rows[i]));
    metrics.tokens += std::ssize(rows[i].values);
  }
  const int64_t count = std::ssize(rows);
  NXDKIT_TRY(CheckMicroBatch(mini_batch, count, metrics.tokens));
  if (metrics.tokens == 0) return metrics;
  const LossWeights weights(options.average, mini_batch, count, metrics.tokens);
  for (size_t i = 0; i < rows.size(); ++i)
    NXDKIT_TRY(AddRow(options, weights, i, rows[i], metrics));
  return metrics;
}

}  // namespace nxdkit::trainer
