// The tensor names of neuronx-nemo-megatron (NNM) checkpoints, as NxDT's Megatron models have them.
#pragma once

#include "formats/nxd/shard_set.h"

namespace nxdkit::nxd {

// Renames in place: "model.language_model" becomes "language_model", and the layers, which NNM
// numbers from 0 on every pipeline rank, get the numbers of the whole model.
void RenameNnm(std::vector<Shard>& shards);

}  // namespace nxdkit::nxd
