// PRIVATE to tools/: what --help prints.
#pragma once

#include <string>
#include <vector>

#include "lib/json/json.h"
#include "tools/cli/option_table.h"
#include "tools/cli/tool_context.h"

namespace nxdkit::tool {

// Usage line, what the command does, arguments and options by group, examples, exit codes; plain
// text of at most 80 columns. Where many options go with one kind of artifact or another, these are
// named by kind, and `topic` asks for more: a kind, or "all". kUsage for a topic that there is not.
Result<std::string> HelpText(const ToolInfo& info, const std::vector<OptionFacts>& options,
                             const std::string& topic);

// The options for programs: --help --json.
Json HelpJson(const std::vector<OptionFacts>& options);

}  // namespace nxdkit::tool
