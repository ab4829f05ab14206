// PRIVATE to tools/: the answers of neuron-cache collect, warm and check, and the old spellings
// from neuron_parallel_compile.
#pragma once

#include "formats/compile_cache/place.h"
#include "tools/cache/args.h"
#include "tools/cli/tool.h"

namespace nxdkit::tool {

Result<ToolAnswer> Collect(const CacheArgs& args, const neff::CachePlace& place,
                           ToolContext& context);
Result<ToolAnswer> Warm(const CacheArgs& args, const neff::CachePlace& place, ToolContext& context);
Result<ToolAnswer> Check(const CacheArgs& args, const neff::CachePlace& place,
                         ToolContext& context);

}  // namespace nxdkit::tool
