// PRIVATE: the meaning of a pickle's calls: REDUCE, NEWOBJ and BUILD on the globals of the
// allow-list. Errors have no offset: the machine adds it.
#pragma once

#include "formats/torch/pickle_graph.h"

namespace nxdkit::torch {

// callee(*arguments). `arguments` must be a tuple.
Result<NodeId> Call(PickleGraph& graph, NodeId callee, NodeId arguments);
// callee.__new__(callee, *arguments)
Result<NodeId> NewObject(PickleGraph& graph, NodeId callee, NodeId arguments);
// An unknown class, or a value of one: the result of anything done with it is another one.
bool IsInert(const PickleGraph& graph, NodeId id);
Status Build(PickleGraph& graph, NodeId object, NodeId state);  // object.__setstate__(state)

}  // namespace nxdkit::torch
