// What is kept: prompts whose samples teach something, and checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

// Online filtering. Rows whose group's mean score lies strictly between `low` and `high`,
// ascending: a group stays or goes as a whole. Empty when no group stays. kInternal when there are
// not as many scores as groups, kCorrupt naming the row whose score is not finite.
Result<std::vector<size_t>> FilterGroups(std::span<const uint64_t> groups,
                                         std::span<const double> scores, double low, double high);

// The checkpoint folders to delete once the one of step `current` is there: of the steps before it
// the newest limit - 1 stay; the best one stays too and counts as one of those (limit 1 with an
// older best leaves two folders). limit <= 0 keeps all. Steps from `current` on are never in the
// answer, which is ascending.
std::vector<int64_t> ObsoleteSteps(std::span<const int64_t> existing, int64_t current,
                                   std::optional<int64_t> best, int64_t limit);

}  // namespace nxdkit::trainer
