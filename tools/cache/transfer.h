// PRIVATE to tools/: the answers of neuron-cache merge, push, pull and relocate.
#pragma once

#include "tools/cache/args.h"
#include "tools/cli/tool.h"

namespace nxdkit::tool {

bool IsTransfer(const std::string& command);   // merge, push, pull or pack
bool RunsProgram(const std::string& command);  // collect, warm or check
// kUsage for a wrong number of paths; the words after a program are its own.
Status CheckWords(const CacheArgs& args);

// `place` comes from --cache-dir or the environment.
Result<ToolAnswer> Transfer(const CacheArgs& args, const neff::CachePlace& place,
                            ToolContext& context);
Result<ToolAnswer> Relocate(const CacheArgs& args, const neff::CachePlace& place,
                            ToolContext& context);

}  // namespace nxdkit::tool
