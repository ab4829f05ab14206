// The output of a sharded FSDP run under accelerate and the Trainer of transformers: two
// checkpoints next to each other. Source: accelerate 1.10 and 1.15, transformers 4.57 and 5.24;
// FORMAT.md.
//
// pytorch_model_fsdp_0/   model.NAME
// optimizer_0/            optimizer.state.NAME.exp_avg, optimizer.param_groups.0.lr
//
// With FULL_STATE_DICT instead pytorch_model_fsdp.bin and optimizer.bin: torch archives written by
// rank 0 alone.
#pragma once

#include <string>

#include "formats/dcp/folder.h"

namespace nxdkit::dcp {

// Whether the folder holds a model's checkpoint under accelerate's name.
Result<bool> IsAccelerateFolder(const std::string& path, const Looker& look = {});

// Opens both as one checkpoint, or the model's alone where the optimizer's is missing. A Trainer's
// scheduler.pt is read under "lr_scheduler."; accelerate's scheduler.bin is left out, with a
// warning that says why.
Result<Folder> OpenAccelerate(const std::string& path, const Looker& look = {});

}  // namespace nxdkit::dcp
