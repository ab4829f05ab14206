// PRIVATE to tools/: the page that --html writes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/json/json.h"
#include "tools/cli/option_table.h"
#include "tools/cli/tool.h"

namespace nxdkit::tool {

void AddHtmlOption(OptionTable& table, std::optional<std::string>* path);

// Refuses a page that exists, unless --force is given: asked before the work begins.
Status CheckPage(const std::optional<std::string>& path, const ToolContext& context);

// Writes the page as a whole, and adds it to the answer: a last line, and the key `html`.
Status WritePage(const std::string& path, std::string_view page, ToolAnswer& answer);

}  // namespace nxdkit::tool
