// Statistics of tensors: range, mean, and the number of elements that are not finite.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "formats/artifact/run.h"
#include "lib/base/error.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::ops {

struct TensorStatistics {
  uint64_t elements = 0;
  uint64_t nan = 0;
  uint64_t inf = 0;    // of either sign
  uint64_t zeros = 0;  // of either sign
  // Over the finite elements, in double (64-bit integers are rounded); nullopt if there is none.
  std::optional<double> min;
  std::optional<double> max;
  std::optional<double> mean;
};

// One entry per tensor; nullopt if HasTally is false for the dtype. Reads every element once, on
// run.jobs threads as far as run.max_memory allows; the result is the same at any number of
// threads: the order in which sums are added depends on the tensor only. Returns errors of reading,
// kLimit, and those of run.poll.
Result<std::vector<std::optional<TensorStatistics>>> ComputeStatistics(
    std::span<const StoredTensor* const> tensors, const RunOptions& run);

}  // namespace nxdkit::ops
