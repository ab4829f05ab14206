// PRIVATE to tools/: the answers of neuron-cache ls and verify.
#pragma once

#include "formats/compile_cache/tree.h"
#include "tools/cache/args.h"
#include "tools/cli/tool.h"

namespace nxdkit::tool {

// A cache that nothing was put into yet has no folder; one that the user names has to be there.
Result<bool> IsNotMadeYet(const CacheArgs& args, const std::string& root);

// The root of a place, which has to be a folder: kUnsupported for an object store.
Result<std::string> FolderOf(const neff::CachePlace& place);

Result<ToolAnswer> LookAtCache(const CacheArgs& args, const neff::FoundTree& tree,
                               const ToolContext& context);

// "libneuronxla", or null of a folder in which nothing says what it is.
Json TreeJson(const neff::FoundTree& tree);

}  // namespace nxdkit::tool
