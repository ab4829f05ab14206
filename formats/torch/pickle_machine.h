// PRIVATE: runs a pickle. It builds plain containers, records and tensors, and can do nothing else:
// globals are looked up in an allow-list (pickle_globals.h), and each has one fixed meaning.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/torch/pickle_globals.h"
#include "formats/torch/pickle_graph.h"
#include "formats/torch/tensor_rebuild.h"

namespace nxdkit::torch {

// Pickles are read into memory; this bounds them. Real ones have some 250 bytes per tensor.
inline constexpr uint64_t kMaxPickleBytes = 256 << 20;

struct PickleResult {
  NodeId root = 0;
  size_t bytes = 0;  // the pickle's length, with its STOP; the graph's text may be longer
};

// Runs the pickle at the start of graph.pickle(). Memory is bounded by a small multiple of its
// bytes; nothing recurses. Errors carry the offset of the instruction from the pickle's start.
Result<PickleResult> RunPickle(PickleGraph& graph, PickleFlavor flavor,
                               const GlobalTable& globals = TorchGlobals());

}  // namespace nxdkit::torch
