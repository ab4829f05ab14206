// PRIVATE to formats/ops/inspect: what names tell of an NxD set and of a rollout bundle.
#pragma once

#include "formats/ops/inspect/inspect.h"

namespace nxdkit::ops {

void DescribeSet(Inspection& inspection);     // `nxd`, from artifact.set
void DescribeBundle(Inspection& inspection);  // `rollout`, from artifact.bundle

}  // namespace nxdkit::ops
