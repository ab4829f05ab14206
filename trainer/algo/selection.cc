#include "trainer/algo/selection.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/base/errors.h"

namespace nxdkit::trainer {
namespace {

// Adds like numpy (np.add.reduce of contiguous f64): eight partial sums from 8 values on, halves
// from 129 on. Whether a group is kept can depend on the last bit of its mean.
double PairwiseSum(std::span<const double> values) {
  constexpr size_t kLanes = 8, kBlock = 128;
  const size_t count = values.size();
  if (count > kBlock) {
    const size_t half = count / 2 / kLanes * kLanes;
    return PairwiseSum(values.first(half)) + PairwiseSum(values.subspan(half));
  }
  size_t done = 0;
  double sum = 0;
  if (count >= kLanes) {
    double lanes[kLanes];
    for (size_t k = 0; k < kLanes; ++k) lanes[k] = values[k];
    for (done = kLanes; done + kLanes <= count; done += kLanes)
      for (size_t k = 0; k < kLanes; ++k) lanes[k] += values[done + k];
    sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
          ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  }
  for (; done < count; ++done) sum += values[done];
  return sum;
}

}  // namespace

Result<std::vector<size_t>> FilterGroups(std::span<const uint64_t> groups,
                                         std::span<const double> scores, double low, double high) {
  if (groups.size() != scores.size())
    return Error(Errc::kInternal,
                 fmt::format("{} scores for {} rows", scores.size(), groups.size()));
  std::map<uint64_t, std::vector<double>> of_group;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!std::isfinite(scores[i]))
      return Corrupt("the score is {}, expected a finite number", scores[i])
          .member(fmt::format("row {}", i));
    of_group[groups[i]].push_back(scores[i]);
  }
  std::map<uint64_t, double> means;
  for (const auto& [group, all] : of_group)
    means[group] = PairwiseSum(all) / static_cast<double>(all.size());
  std::vector<size_t> kept;
  for (size_t i = 0; i < groups.size(); ++i) {
    const double mean = means[groups[i]];
    if (low < mean && mean < high) kept.push_back(i);
  }
  return kept;
}

std::vector<int64_t> ObsoleteSteps(std::span<const int64_t> existing, int64_t current,
                                   std::optional<int64_t> best, int64_t limit) {
  std::vector<int64_t> obsolete;
  if (limit <= 0) return obsolete;
  bool has_best = false;
  for (const int64_t step : existing) {
    if (step >= current) continue;
    if (step == best)
      has_best = true;
    else
      obsolete.push_back(step);
  }
  std::ranges::sort(obsolete);
  const int64_t stay = std::max<int64_t>(0, limit - 1 - (has_best ? 1 : 0));
  const int64_t old = std::ssize(obsolete);
  obsolete.resize(static_cast<size_t>(std::max<int64_t>(0, old - stay)));
  return obsolete;
}

}  // namespace nxdkit::trainer
