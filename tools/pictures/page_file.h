// PRIVATE to tools/: the page that --html writes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/option_table.h"
#include "tools/cli/tool.h"

namespace nxdkit::tool {

// --html FILE, where "-" is standard output.
void AddHtmlOption(OptionTable& table, std::optional<std::string>* path, std::string_view help);

// Asked before the work begins: refuses a page that exists, unless --force is given, one in the
// place of what is read, and a path that cannot be a file.
Status CheckPage(const std::optional<std::string>& path, const std::vector<std::string>& read,
                 const ToolContext& context);

// Adds the page to the answer. A file is written as a whole, and named in a last line and the key
// `html`. On standard output the page takes the place of the text; with --json it is the key
// `page`.
Status AddPage(const std::string& path, std::string page, ToolAnswer& answer);

}  // namespace nxdkit::tool
