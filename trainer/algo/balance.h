// Distributes rows of different lengths by the largest differencing method (Karmarkar and Karp):
// the two states with the largest spread are merged, largest set with smallest, until one is left.
// Ties are broken as in the reference, so the same lengths give the same parts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

using Part = std::vector<int64_t>;                                     // indices of rows, ascending
int64_t LengthOf(std::span<const int64_t> lengths, const Part& part);  // of all its rows

// `parts` parts with the same number of rows each. kUsage when the rows do not divide evenly.
Result<std::vector<Part>> PartitionEqual(std::span<const int64_t> lengths, int64_t parts);
// `parts` parts of any number of rows. kUsage when there are fewer rows than parts, or no part.
Result<std::vector<Part>> PartitionAny(std::span<const int64_t> lengths, int64_t parts);

// A new order of the rows of a batch: equal parts one after another, part r for worker r.
struct Balance {
  std::vector<int64_t> order;  // row order[i] of the batch becomes row i
  // global_seqlen/*: sums of lengths per worker before and after balancing, and their mean.
  int64_t min = 0, max = 0, balanced_min = 0, balanced_max = 0;
  double mean = 0;
  int64_t minmax_diff() const { return max - min; }
};
Result<Balance> BalanceRows(std::span<const int64_t> lengths, int64_t workers);

// The number of micro-batches of about `max_tokens` each that rows of these lengths need.
int64_t MicroBatchCount(std::span<const int64_t> lengths, int64_t max_tokens);
// `count` micro-batches, the costliest (by the sum of squares of lengths) first. max_tokens is a
// target: a micro-batch may exceed it. Errors as PartitionAny.
Result<std::vector<Part>> PackMicroBatches(std::span<const int64_t> lengths, int64_t count);

}  // namespace nxdkit::trainer
