// PRIVATE to formats/ops/inspect: files of training that are not whole models: adapters, optimizer
// states, a trainer's own files.
#pragma once

#include <string>

#include "formats/ops/inspect/inspect.h"

namespace nxdkit::ops {

Result<bool> LooksLikeAdapter(const std::string& path, const Looker& look);
Status InspectAdapter(Inspection& inspection, const InspectRequest& request);
Status InspectOptimizer(Inspection& inspection, const InspectRequest& request);

// Fills `trainer` if the folder has files of optimum-neuron's trainer or transformers'.
Status DescribeTrainer(Inspection& inspection, const std::string& folder);

}  // namespace nxdkit::ops
