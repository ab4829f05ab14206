// PRIVATE to tools/: the answers of neuron-cache prune and clear.
#pragma once

#include "formats/compile_cache/tree.h"
#include "tools/cache/args.h"
#include "tools/cli/tool.h"

namespace nxdkit::tool {

Result<ToolAnswer> MakeRoom(const CacheArgs& args, const neff::CachePlace& place,
                            const neff::FoundTree& tree, ToolContext& context);

}  // namespace nxdkit::tool
