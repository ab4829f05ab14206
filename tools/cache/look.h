// PRIVATE to tools/: the answers of neuron-cache ls and verify.
#pragma once

#include "formats/compile_cache/tree.h"
#include "tools/cache/args.h"
#include "tools/cli/tool.h"

namespace nxdkit::tool {

// A cache that is still empty has no folder; one that the user names must exist.
Result<bool> IsNotMadeYet(const CacheArgs& args, const std::string& root);

// The root of a place, which must be a folder: kUnsupported for an object store.
Result<std::string> FolderOf(const neff::CachePlace& place);

Result<ToolAnswer> LookAtCache(const CacheArgs& args, const neff::FoundTree& tree,
                               const ToolContext& context);

// "libneuronxla", or null for a folder that does not show which engine it belongs to.
Json TreeJson(const neff::FoundTree& tree);

}  // namespace nxdkit::tool
