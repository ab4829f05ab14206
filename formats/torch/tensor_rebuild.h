// PRIVATE: the storages and tensors of a pickle. Errors have no offset: the machine adds it.
#pragma once

#include <cstdint>

#include "formats/torch/pickle_graph.h"

namespace nxdkit::torch {

// The form of persistent ids: 5 fields in a zip, 6 in a legacy file.
enum class PickleFlavor { kZip, kLegacy };

// The storage that a persistent id names; `offset` is that of the persistent id in the pickle.
Result<NodeId> LoadStorage(PickleGraph& graph, NodeId id, PickleFlavor flavor, uint64_t offset);

// The calls of torch._utils that make a tensor from a storage.
Result<NodeId> RebuildTensor(PickleGraph& graph, const Global& function, NodeId arguments);

}  // namespace nxdkit::torch
