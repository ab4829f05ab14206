// PRIVATE: what a pickle's calls mean: REDUCE, NEWOBJ and BUILD on the globals of the allow-list.
// Errors have no offset: the machine adds it.
#pragma once

#include "formats/torch/pickle_graph.h"

namespace nxdkit::torch {

// callee(*arguments). `arguments` must be a tuple.
Result<NodeId> Call(PickleGraph& graph, NodeId callee, NodeId arguments);
// callee.__new__(callee, *arguments)
Result<NodeId> NewObject(PickleGraph& graph, NodeId callee, NodeId arguments);
// A class that is not known, or a value of it: whatever is done with it is one again.
bool IsInert(const PickleGraph& graph, NodeId id);
Status Build(PickleGraph& graph, NodeId object, NodeId state);  // object.__setstate__(state)

}  // namespace nxdkit::torch
