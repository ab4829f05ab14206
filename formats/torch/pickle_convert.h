// PRIVATE: from the machine's arena of nodes to the tree that callers see.
#pragma once

#include "formats/torch/pickle_graph.h"
#include "formats/torch/pickle_value.h"
#include "lib/base/error.h"

namespace nxdkit::torch {

// Values nested deeper than this are refused: whoever walks the tree, and the destructor of the
// tree itself, may recurse.
inline constexpr int kMaxNesting = 500;

// A list or dict that the pickle names twice is one shared list or dict in the tree. Refused
// (kUnsupported): cycles; nesting over kMaxNesting; so much sharing that a walk of the tree would
// visit far more than the pickle has bytes; bare storages. kCorrupt: a dict with a key twice, or
// with a key that cannot be one; a reference that was never given its tid.
Result<PickleValue> ToValue(const PickleGraph& graph, NodeId root);

}  // namespace nxdkit::torch
