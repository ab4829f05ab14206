// PRIVATE: the optimizer's files of all ranks, and what they have of each parameter.
#pragma once

#include <vector>

#include "formats/zero/partition.h"
#include "formats/zero/tag_state.h"

namespace nxdkit::zero {

// kNotFound naming the ranks without a file; kCorrupt for ranks that contradict each other, or are
// one rank twice. Tells the facts the stage and how many ranks there are.
Result<std::vector<OptimizerFile>> ReadRankOptimizers(TagState& tag);

// The place of every parameter in the ranks' flat tensors. kCorrupt, naming the model's file, where
// it does not say what is in them.
Result<Partition> PartitionOf(const TagState& tag, const std::vector<OptimizerFile>& ranks);

// The master weights of a parameter, from all ranks, under a key.
Status AddMasters(TagState& tag, const std::vector<OptimizerFile>& ranks, const Place& place,
                  const std::string& key);

// The optimizer's state of every parameter, and its options. kUnsupported for a state that is
// not as long as the master weights: then it is another optimizer's than Adam.
Status AddKeptState(TagState& tag, const Partition& partition,
                    const std::vector<OptimizerFile>& ranks);

}  // namespace nxdkit::zero
