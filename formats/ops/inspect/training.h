// PRIVATE to formats/ops/inspect: what training leaves beside whole models: adapters, optimizer
// states, a trainer's own files.
#pragma once

#include <string>

#include "formats/ops/inspect/inspect.h"

namespace nxdkit::ops {

Result<bool> LooksLikeAdapter(const std::string& path, const Looker& look);
Status InspectAdapter(Inspection& inspection, const InspectRequest& request);
Status InspectOptimizer(Inspection& inspection, const InspectRequest& request);

// Fills `trainer` when optimum-neuron's trainer or transformers' left its files in the folder.
Status DescribeTrainer(Inspection& inspection, const std::string& folder);

}  // namespace nxdkit::ops
