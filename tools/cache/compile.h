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

// kUsage for options of compile with another command, and for values that are wrong.
Status CheckCompileOptions(const CacheArgs& args);

// Faults of the options and the machine that show before a program has run: no compiler, a
// number that is none, no target where the flags of the environment say none.
Status CheckBeforeProgram(const CacheArgs& args, const std::function<Status()>& poll);

// `wanted`: names of entries; without it every entry that has a graph.
Result<ToolAnswer> Compile(const CacheArgs& args, const neff::FoundTree& tree,
                           const std::optional<std::vector<std::string>>& wanted,
                           ToolContext& context);

}  // namespace nxdkit::tool
