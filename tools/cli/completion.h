// Completion scripts for the shells, made from the option table.
#pragma once

#include <string>
#include <string_view>

#include "tools/cli/option_table.h"
#include "tools/cli/tool_info.h"

namespace nxdkit::tool {

// `shell` is bash, zsh or fish.
std::string CompletionScript(std::string_view shell, const ToolInfo& info,
                             const OptionTable& table);

}  // namespace nxdkit::tool
