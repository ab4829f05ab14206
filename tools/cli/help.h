// PRIVATE to tools/: the output of --help.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/json/json.h"
#include "tools/cli/option_table.h"
#include "tools/cli/tool_context.h"

namespace nxdkit::tool {

// The topic of -h.
inline constexpr std::string_view kShortHelp = "short";

// Plain text, folded at 80 columns; usage lines and commands of examples stay whole. Without a
// topic, or with "all": usage, purpose, arguments and options by group, examples, exit codes.
// `kShortHelp`: one screen. The name of a kind of artifact: its options. kUsage for other topics.
Result<std::string> HelpText(const ToolInfo& info, const std::vector<OptionFacts>& options,
                             const std::string& topic);

// The options for programs: --help --json.
Json HelpJson(const std::vector<OptionFacts>& options);

}  // namespace nxdkit::tool
