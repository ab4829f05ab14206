#include "tools/pictures/page_file.h"

#include <fmt/core.h>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::tool {

void AddHtmlOption(OptionTable& table, std::optional<std::string>* path) {
  table.Text("html", "FILE", path, "write the answer as a page for a browser too")
      .completes(Completes::kPath);
}

Status CheckPage(const std::optional<std::string>& path, const ToolContext& context) {
  if (!path || context.common().force) return OkStatus();
  NXDKIT_ASSIGN(const bool there, IsThere(*path));
  if (there) return BadUsage("it already exists").in(*path).hint("--force replaces it");
  return OkStatus();
}

Status WritePage(const std::string& path, std::string_view page, ToolAnswer& answer) {
  NXDKIT_TRY(WriteFileAtomic(path, page));
  answer.text += fmt::format("wrote {}, {}\n", EscapeControl(path), HumanBytes(page.size()));
  answer.fields["html"] = path;
  return OkStatus();
}

}  // namespace nxdkit::tool
