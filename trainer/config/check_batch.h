// PRIVATE to trainer/config. Batches must divide evenly: over updates, ranks, micro-batches and
// engines.
#pragma once

#include "trainer/config/checker.h"
#include "trainer/config/plan.h"

namespace nxdkit::trainer {

void CheckBatches(Checker& check, const RunPlan& plan);

}  // namespace nxdkit::trainer
