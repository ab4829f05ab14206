// PRIVATE to formats/kinds: the checkpoint of a loop around transformers since release 5.15:
// weights and optimizer next to each other. Sources: transformers 5.19 and 5.24, run;
// formats/dcp/FORMAT.md.
//
//   shard-0000R-model-00001-of-00001.safetensors    5.20 to 5.24: the weights' chunks, rank by rank
//   sharded/shard-..., model-00001-of-00001.safetensors    5.15 to 5.19: the same twice
//   optimizer/.metadata, __R_0.distcp               or optimizer/optimizer.pt
//   scheduler.pt, rng_state_R.pth, trainer_state.json
#pragma once

#include <string>

#include "formats/dcp/folder.h"

namespace nxdkit::kinds {

inline constexpr char kOptimizerBeside[] = "optimizer";  // the folder
inline constexpr char kShardedBelow[] = "sharded";

// Whether the folder has weights, in any of these forms, and the folder of their optimizer.
Result<bool> IsTransformersFolder(const std::string& path, const Looker& look = {});

// Both as one checkpoint, with scheduler.pt under "lr_scheduler." and the step of
// trainer_state.json. An optimizer that cannot be read is an error, as in any checkpoint; a warning
// says that the random states are left out, since they belong to the same number of ranks.
Result<dcp::Folder> OpenTransformers(const std::string& path, const Looker& look = {});

}  // namespace nxdkit::kinds
