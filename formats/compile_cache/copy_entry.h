// PRIVATE: an entry copied to a place aside in another tree.
#pragma once

#include <optional>
#include <string>

#include "formats/compile_cache/tree.h"

namespace nxdkit::neff {

// A path for a copy of the entry, in the tree, that no reader takes for an entry, and that tells
// whose it is: AsideName of the key, or of .nxdkit-merge, or .tmp.XXXXXX. The folders above are
// made.
Result<std::string> AsideOf(const FoundTree& tree, const std::string& name);
// All files of the entry but locks, leftovers and the note of the last use; the marker last. Not
// synced. Links are left out. kCorrupt when a file is cut while it is read.
Status CopyEntry(TreeKind kind, const CacheEntry& entry, const std::string& to);

std::string PayloadPath(const FoundTree& tree, const CacheEntry& entry);

// The graph of an entry of vLLM Neuron in `folder`, where it may name kernels.
Result<std::optional<std::string>> GraphWithKernels(const std::string& folder);
// Another one in its place: the copy is nobody's but ours.
Status ReplaceGraph(const std::string& folder, std::string_view graph);

}  // namespace nxdkit::neff
