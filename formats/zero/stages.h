// PRIVATE: a tag by its stage: the weights, and the state in the ranks' flat groups.
#pragma once

#include <vector>

#include "formats/zero/partition.h"
#include "formats/zero/tag_state.h"

namespace nxdkit::zero {

// Stages 0, 1 and 2: the weights are whole in the single model file, apart from the state.
Status AddWeights12(TagState& tag);
Status AddState12(TagState& tag);

// Stage 3: the weights are the master weights of all ranks.
struct Stage3 {
  std::vector<OptimizerFile> ranks;
  Partition partition;
};
Result<Stage3> AddWeights3(TagState& tag);
Status AddState3(TagState& tag, const Stage3& stage);
// Adds the frozen parameters, of which every rank's model file has a part.
Status AddFrozen3(TagState& tag, int world);

}  // namespace nxdkit::zero
