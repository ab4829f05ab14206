#include "tools/pictures/page_file.h"

#include <fmt/core.h>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/look.h"
#include "lib/system/paths.h"
#include "lib/system/places.h"

namespace nxdkit::tool {
namespace {

constexpr std::string_view kStdout = "-";

}  // namespace

void AddHtmlOption(OptionTable& table, std::optional<std::string>* path, std::string_view help) {
  table.Text("html", "FILE", path, help).completes(Completes::kPath);
}

Status CheckPage(const std::optional<std::string>& path, const std::vector<std::string>& read,
                 const ToolContext& context) {
  if (!path || *path == kStdout) return OkStatus();
  std::vector<std::string> places;
  for (const std::string& each : read)
    if (context.host().Held(each) == nullptr) places.push_back(each);
  NXDKIT_TRY(CheckPlaces(*path, places));
  for (const std::string& each : places) NXDKIT_TRY(CheckNotAPart(*path, each));
  NXDKIT_ASSIGN(const PathKind kind, KindOf(*path));
  if (kind == PathKind::kFolder || kind == PathKind::kOther)
    return BadUsage("a page is a file, found {}",
                    kind == PathKind::kFolder ? "a folder" : "something else")
        .in(*path);
  if (kind == PathKind::kFile && !context.common().force)
    return BadUsage("it already exists").in(*path).hint("--force replaces it");
  const std::string parent = ParentPath(*path);
  NXDKIT_ASSIGN(const bool has_parent, parent.empty() ? Result<bool>(true) : IsFolder(parent));
  if (!has_parent) return Error(Errc::kIo, "its folder is not there").in(*path);
  return OkStatus();
}

Status AddPage(const std::string& path, std::string page, ToolAnswer& answer) {
  if (path == kStdout) {
    answer.fields["page"] = page;
    answer.text = std::move(page);
    return OkStatus();
  }
  NXDKIT_TRY(WriteFileAtomic(path, page));
  answer.brief = answer.text;
  answer.text += fmt::format("wrote {}, {}\n", EscapeControl(path), HumanBytes(page.size()));
  answer.fields["html"] = path;
  return OkStatus();
}

}  // namespace nxdkit::tool
