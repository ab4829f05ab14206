// PRIVATE to tools/: what --help prints.
#pragma once

#include <string>
#include <vector>

#include "lib/json/json.h"
#include "tools/cli/option_table.h"
#include "tools/cli/tool_context.h"

namespace nxdkit::tool {

// Usage line, what the command does, arguments and options by group, examples, exit codes; plain
// text of at most 80 columns.
std::string HelpText(const ToolInfo& info, const std::vector<OptionFacts>& options);

// The options for programs: --help --json.
Json HelpJson(const std::vector<OptionFacts>& options);

}  // namespace nxdkit::tool
