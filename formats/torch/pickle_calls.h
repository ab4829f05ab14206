// What a pickle's calls mean: REDUCE, NEWOBJ and BUILD on the globals of the allow-list, and the
// persistent ids of storages. Errors of these have no offset: the machine adds it.
#pragma once

#include <cstdint>

#include "formats/torch/pickle_graph.h"
#include "formats/torch/pickle_machine.h"
#include "lib/base/error.h"

namespace nxdkit::torch {

// callee(*arguments). `arguments` must be a tuple.
Result<NodeId> Call(PickleGraph& graph, NodeId callee, NodeId arguments);
// callee.__new__(callee, *arguments)
Result<NodeId> NewObject(PickleGraph& graph, NodeId callee, NodeId arguments);
// object.__setstate__(state)
Status Build(PickleGraph& graph, NodeId object, NodeId state);
// The storage of a persistent id; `offset` is where the pickle names it. See storage_ids.cc.
Result<NodeId> LoadStorage(PickleGraph& graph, NodeId id, PickleFlavor flavor, uint64_t offset);

// Calls of the functions of torch._utils that rebuild a tensor; see tensor_rebuild.cc.
Result<NodeId> RebuildTensor(PickleGraph& graph, const Global& function, NodeId arguments);

}  // namespace nxdkit::torch
