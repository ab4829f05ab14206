// PRIVATE: copies an entry to a temporary path in another tree.
#pragma once

#include <optional>
#include <string>

#include "formats/compile_cache/tree.h"

namespace nxdkit::neff {

// A path in the tree for a copy of the entry that no reader takes for an entry, and that shows its
// maker: AsideName of the key, or of .nxdkit-merge, or .tmp.XXXXXX. The folders above it are made.
Result<std::string> AsideOf(const FoundTree& tree, const std::string& name);
// Copies all files of the entry except locks, leftovers and the note of the last use; the marker
// last. Not synced. Links are left out. kCorrupt when a file is truncated while it is read.
Status CopyEntry(TreeKind kind, const CacheEntry& entry, const std::string& to);

std::string PayloadPath(const FoundTree& tree, const CacheEntry& entry);

// The graph of a vLLM Neuron entry in `folder`, where it may name kernels.
Result<std::optional<std::string>> GraphWithKernels(const std::string& folder);
// Replaces the graph in a copy, which nobody else uses.
Status ReplaceGraph(const std::string& folder, std::string_view graph);

}  // namespace nxdkit::neff
