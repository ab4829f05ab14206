// PRIVATE to tools/: completion scripts for the shells.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/option_table.h"
#include "tools/cli/tool_context.h"

namespace nxdkit::tool {

// `shell` is bash, zsh or fish.
std::string CompletionScript(std::string_view shell, const ToolInfo& info,
                             const std::vector<OptionFacts>& options);

}  // namespace nxdkit::tool
