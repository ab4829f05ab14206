// PRIVATE: the optimizer files of all ranks, and their parts of each parameter.
#pragma once

#include <vector>

#include "formats/zero/partition.h"
#include "formats/zero/tag_state.h"

namespace nxdkit::zero {

// kNotFound naming the ranks without a file; kCorrupt for ranks that contradict each other, or one
// rank found twice. Sets the stage and the number of ranks in the tag's facts.
Result<std::vector<OptimizerFile>> ReadRankOptimizers(TagState& tag);

// The place of every parameter in the ranks' flat tensors. kCorrupt, naming the model's file, where
// it does not record their contents.
Result<Partition> PartitionOf(const TagState& tag, const std::vector<OptimizerFile>& ranks);

// Adds the master weights of a parameter, from all ranks, under a key.
Status AddMasters(TagState& tag, const std::vector<OptimizerFile>& ranks, const Place& place,
                  const std::string& key);

// Adds the optimizer's state of every parameter, and its options. kUnsupported for a state whose
// length is not that of the master weights: that optimizer is not an Adam.
Status AddKeptState(TagState& tag, const Partition& partition,
                    const std::vector<OptimizerFile>& ranks);

}  // namespace nxdkit::zero
