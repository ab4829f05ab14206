#include "trainer/algo/selection.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/base/errors.h"

namespace nxdkit::trainer {

Result<std::vector<size_t>> FilterGroups(std::span<const uint64_t> groups,
                                         std::span<const double> scores, double low, double high) {
  if (groups.size() != scores.size())
    return Error(Errc::kInternal,
                 fmt::format("{} scores for {} rows", scores.size(), groups.size()));
  struct Sum {
    double total = 0;
    double rows = 0;
  };
  std::map<uint64_t, Sum> sums;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!std::isfinite(scores[i]))
      return Corrupt("the score is {}, expected a finite number", scores[i])
          .member(fmt::format("row {}", i));
    Sum& sum = sums[groups[i]];
    sum.total += scores[i];
    sum.rows += 1;
  }
  std::vector<size_t> kept;
  for (size_t i = 0; i < groups.size(); ++i) {
    const Sum& sum = sums[groups[i]];
    const double mean = sum.total / sum.rows;
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
