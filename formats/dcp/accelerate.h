// What accelerate and the Trainer of transformers leave of a sharded FSDP run: two checkpoints
// beside one another. Source: accelerate 1.10 and 1.15, transformers 4.57 and 5.24; FORMAT.md.
//
//   pytorch_model_fsdp_0/   model.NAME
//   optimizer_0/            optimizer.state.NAME.exp_avg, optimizer.param_groups.0.lr
//
// or, of FULL_STATE_DICT, pytorch_model_fsdp.bin and optimizer.bin: torch archives of rank 0 alone.
#pragma once

#include <string>

#include "formats/dcp/folder.h"

namespace nxdkit::dcp {

// Whether the folder has the checkpoint of a model in it, as accelerate calls it.
Result<bool> IsAccelerateFolder(const std::string& path, const Looker& look = {});

// Both as one checkpoint; without the optimizer's, that of the model. A Trainer's scheduler.pt is
// read under "lr_scheduler."; of accelerate's scheduler.bin a warning says why it is left.
Result<Folder> OpenAccelerate(const std::string& path, const Looker& look = {});

}  // namespace nxdkit::dcp
