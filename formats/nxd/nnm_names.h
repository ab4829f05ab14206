// Translates tensor names of neuronx-nemo-megatron (NNM) checkpoints to those of NxDT's Megatron
// models.
#pragma once

#include "formats/nxd/shard_set.h"

namespace nxdkit::nxd {

// Renames in place: "model.language_model" becomes "language_model", and layers, which NNM numbers
// from 0 on every pipeline rank, get their numbers in the whole model.
void RenameNnm(std::vector<Shard>& shards);

}  // namespace nxdkit::nxd
