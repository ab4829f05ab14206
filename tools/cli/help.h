// What --help prints, made from the option table.
#pragma once

#include <string>

#include "tools/cli/option_table.h"
#include "tools/cli/tool_info.h"

namespace nxdkit::tool {

// Usage line, what the command does, arguments and options by group, examples, exit codes; plain
// text of at most 80 columns.
std::string HelpText(const ToolInfo& info, const OptionTable& table);

}  // namespace nxdkit::tool
