// PRIVATE: the storages and tensors of a pickle. Errors have no offset: the machine adds it.
#pragma once

#include <cstdint>

#include "formats/torch/pickle_graph.h"

namespace nxdkit::torch {

// How persistent ids are spelled: a zip has 5 fields, a legacy file 6.
enum class PickleFlavor { kZip, kLegacy };

// The storage that a persistent id names; `offset` is where the pickle names it.
Result<NodeId> LoadStorage(PickleGraph& graph, NodeId id, PickleFlavor flavor, uint64_t offset);

// The calls of torch._utils that make a tensor of a storage.
Result<NodeId> RebuildTensor(PickleGraph& graph, const Global& function, NodeId arguments);

}  // namespace nxdkit::torch
