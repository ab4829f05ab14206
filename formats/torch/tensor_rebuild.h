// The calls of torch._utils that make a tensor of a storage. Errors have no offset: the machine
// adds it.
#pragma once

#include "formats/torch/pickle_graph.h"
#include "lib/base/error.h"

namespace nxdkit::torch {

Result<NodeId> RebuildTensor(PickleGraph& graph, const Global& function, NodeId arguments);

}  // namespace nxdkit::torch
