// Selection of the prompts whose samples teach something, and of the checkpoints to keep.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

// Online filtering. Rows whose group's mean score lies strictly between `low` and `high`,
// ascending: a group is kept or dropped as a whole. Empty when no group is kept. kInternal when the
// numbers of scores and groups differ, kCorrupt naming the row whose score is not finite.
Result<std::vector<size_t>> FilterGroups(std::span<const uint64_t> groups,
                                         std::span<const double> scores, double low, double high);

// The checkpoint folders to delete once that of step `current` exists: of the earlier steps the
// newest limit - 1 are kept; the best one is kept too and counts as one of those (limit 1 with an
// older best leaves two folders). limit <= 0 keeps all. The result is ascending and never contains
// `current` or later steps.
std::vector<int64_t> ObsoleteSteps(std::span<const int64_t> existing, int64_t current,
                                   std::optional<int64_t> best, int64_t limit);

}  // namespace nxdkit::trainer
