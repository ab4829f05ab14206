#include "trainer/algo/importance.h"

#include <algorithm>
#include <cmath>

#include "lib/base/errors.h"
#include "trainer/algo/names.h"

namespace nxdkit::trainer {
namespace {

constexpr Named<ImportanceLevel> kLevels[] = {{"off", ImportanceLevel::kOff},
                                              {"token", ImportanceLevel::kToken},
                                              {"sequence", ImportanceLevel::kSequence}};
constexpr double kMostLogRatio = 20;

double RatioOfPolicies(double log_ratio) {
  return std::exp(std::clamp(log_ratio, -kMostLogRatio, kMostLogRatio));
}

Status CheckImportanceRow(const ImportanceRow& row, size_t number) {
  if (row.trainer.size() != row.engine.size())
    return BadUsage("row {}: {} log-probabilities of the trainer, {} of the engine", number,
                    row.trainer.size(), row.engine.size());
  for (size_t t = 0; t < row.trainer.size(); ++t)
    if (!std::isfinite(row.trainer[t]) || !std::isfinite(row.engine[t]))
      return BadUsage("row {}, token {}: log-probabilities {} of the trainer and {} of the engine",
                      number, t, row.trainer[t], row.engine[t]);
  return OkStatus();
}

std::vector<double> RatiosOf(ImportanceLevel level, const ImportanceRow& row) {
  std::vector<double> ratios;
  double sum = 0;
  for (size_t t = 0; t < row.trainer.size(); ++t) {
    const double difference = double{row.trainer[t]} - row.engine[t];
    ratios.push_back(RatioOfPolicies(difference));
    sum += difference;
  }
  if (level == ImportanceLevel::kSequence) std::ranges::fill(ratios, RatioOfPolicies(sum));
  return ratios;
}

}  // namespace

Result<ImportanceLevel> ParseImportanceLevel(std::string_view name) {
  return FindNamed(kLevels, "algorithm.rollout_is", name);
}

Result<std::vector<std::vector<float>>> ImportanceWeights(const ImportanceOptions& options,
                                                          std::span<const ImportanceRow> rows,
                                                          ImportanceStats& stats) {
  NXDKIT_CHECK(options.level != ImportanceLevel::kOff && options.threshold > 0);
  std::vector<std::vector<float>> weights;
  double sum = 0, squares = 0, tokens = 0, truncated = 0;
  double least = options.threshold, most = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    NXDKIT_TRY(CheckImportanceRow(rows[i], i));
    weights.emplace_back();
    for (const double ratio : RatiosOf(options.level, rows[i])) {
      const double weight = std::min(ratio, options.threshold);
      weights.back().push_back(static_cast<float>(weight));
      truncated += ratio > options.threshold ? 1 : 0;
      sum += weight;
      squares += weight * weight;
      least = std::min(least, weight);
      most = std::max(most, weight);
      ++tokens;
    }
  }
  stats = {};
  if (tokens == 0) return weights;
  stats = {.mean = sum / tokens,
           .min = least,
           .max = most,
           .truncated = truncated / tokens,
           .effective = squares > 0 ? sum * sum / (tokens * squares) : 0};
  return weights;
}

}  // namespace nxdkit::trainer
