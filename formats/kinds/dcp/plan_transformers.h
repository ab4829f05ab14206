// PRIVATE to formats/kinds/dcp: a checkpoint of transformers, as a loop with save_pretrained(...,
// distributed_checkpoint=True) and save_optimizer_distributed leaves it since release 5.20. Facts:
// formats/dcp/FORMAT.md.
#pragma once

#include "formats/kinds/builder.h"
#include "formats/kinds/dcp/dcp_contents.h"

namespace nxdkit::kinds {

// Plans the weights as shards of safetensors, a file for each rank of the mesh; the optimizer's
// state as a distributed checkpoint in a folder next to them; the schedule and the step in the
// Trainer's files.
Status PlanTransformers(OutputBuilder& builder, const DcpOutput& output, DcpContents contents);

}  // namespace nxdkit::kinds
