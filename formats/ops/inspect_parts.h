// Private: the steps of Inspect, each filling in a part of the Inspection.
#pragma once

#include <string>

#include "formats/ops/inspect.h"

namespace nxdkit::ops {

// One torch archive: a state dict, nested values, a shard of an NxD set, or a TorchScript program.
// Fills form, description, artifact, references, shard, entries, records and warnings.
Status InspectTorchFile(Inspection& inspection, const InspectRequest& request);

// Fills `layout`, `parameters`, and the facts that follow from a known layout. The artifact is as
// before, also when its layout does not fit. kUsage when an option contradicts the artifact.
Status InspectLayout(Inspection& inspection, const InspectRequest& request);

// Facts of `artifact.set` and of `artifact.bundle` that names tell.
void DescribeSet(Inspection& inspection);
void DescribeBundle(Inspection& inspection);

// Fills the counts and `dtypes`.
void CountTensors(Inspection& inspection);

uint64_t FileBytes(const std::string& path);  // 0 when there is none

}  // namespace nxdkit::ops
