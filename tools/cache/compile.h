// PRIVATE to tools/: the answers of neuron-cache compile, and of the second half of warm.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/compile_cache/tree.h"
#include "formats/ops/precompile/compiler.h"
#include "tools/cache/args.h"
#include "tools/cli/tool.h"

namespace nxdkit::tool {

// kUsage for options of compile given to another command, and for wrong values.
Status CheckCompileOptions(const CacheArgs& args);

// Faults of the options and the machine that show before a program has run: no compiler, an invalid
// number, no target where the environment's flags name none.
Status CheckBeforeProgram(const CacheArgs& args, const std::function<Status()>& poll);

// `wanted`: names of entries; without it, every entry that has a graph.
Result<ToolAnswer> Compile(const CacheArgs& args, const neff::FoundTree& tree,
                           const std::optional<std::vector<std::string>>& wanted,
                           ToolContext& context);

}  // namespace nxdkit::tool
