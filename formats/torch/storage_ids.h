// Persistent ids: how the pickle names the storages beside it. Errors have no offset: the machine
// adds it.
#pragma once

#include <cstdint>

#include "formats/torch/pickle_graph.h"
#include "formats/torch/pickle_machine.h"
#include "lib/base/error.h"

namespace nxdkit::torch {

// The storage of a persistent id; `offset` is where the pickle names it.
Result<NodeId> LoadStorage(PickleGraph& graph, NodeId id, PickleFlavor flavor, uint64_t offset);

}  // namespace nxdkit::torch
