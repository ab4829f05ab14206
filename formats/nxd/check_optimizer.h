// What must hold in an optimizer's files, and what writers that are known to be faulty leave.
#pragma once

#include "formats/nxd/optimizer_set.h"
#include "lib/plan/layout.h"

namespace nxdkit::nxd {

// Every file has the same groups with the same hyper-parameters, but for the numbers in "params".
// kCorrupt naming file and key; kUnsupported for a value that cannot be written again.
Status CheckGroups(const OptimizerSet& set);

// The rows of every tensor that is kept of `param`, one stored tensor of the model. Fewer than
// there must be is kCorrupt, naming the writer that loses them.
Status CheckRows(const OptimizerSet& set, const TensorLayout& param, const ParamState& state);

}  // namespace nxdkit::nxd
