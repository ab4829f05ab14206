// Checks on an optimizer's files, including for traces of writers known to be faulty.
#pragma once

#include "formats/nxd/optimizer_set.h"
#include "lib/plan/layout.h"

namespace nxdkit::nxd {

// Every file must have the same groups with the same hyper-parameters, apart from the numbers in
// "params". kCorrupt naming file and key; kUnsupported for a value that cannot be written again.
Status CheckGroups(const OptimizerSet& set);

// Checks the rows of every state tensor of `param`, one stored tensor of the model. Too few are
// kCorrupt, naming the writer that loses them.
Status CheckRows(const OptimizerSet& set, const TensorLayout& param, const ParamState& state);

}  // namespace nxdkit::nxd
