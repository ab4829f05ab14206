#include "lib/system/user_path.h"

#include <algorithm>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/look.h"
#include "lib/system/paths.h"
#include "lib/system/process.h"

namespace nxdkit {
namespace {

constexpr std::string_view kFile = "file";
constexpr std::string_view kHomeWords[] = {"~", "$HOME", "${HOME}"};

// To the first slash: "~", "$HOME"; all of a path without one.
std::string_view FirstPart(std::string_view path) { return path.substr(0, path.find('/')); }

}  // namespace

std::string_view UrlScheme(std::string_view text) {
  const size_t colon = text.find("://");
  if (colon == text.npos) return "";
  const std::string_view scheme = text.substr(0, colon);
  const bool is_name = std::ranges::all_of(
      scheme, [](char c) { return IsAlnum(c) || c == '+' || c == '-' || c == '.'; });
  return is_name ? scheme : "";
}

Status RefuseUrl(std::string_view text) {
  const std::string_view scheme = UrlScheme(text);
  if (scheme.empty()) return OkStatus();
  const std::string shown = EscapeControl(text);
  Error error = Unsupported("{} is a URL, expected a local path", shown);
  if (scheme == kFile)
    return std::move(error).hint(
        fmt::format("write {}", EscapeControl(text.substr(text.find("://") + 3))));
  return std::move(error).hint(
      "mount the storage, or copy the files to or from it with its own tools");
}

Result<std::string> UserPath(const std::string& text) {
  NXDKIT_TRY(RefuseUrl(text));
  const std::string_view first = FirstPart(text);
  if (!first.starts_with('~') && !first.starts_with('$')) return text;
  if (KindForHint(std::string(first)) != PathKind::kMissing) return text;
  const std::string shown = EscapeControl(text);
  if (std::ranges::find(kHomeWords, first) == std::end(kHomeWords))
    return BadUsage("{} in {} is not replaced here, only ~ and $HOME are", EscapeControl(first),
                    shown)
        .hint("write the folder that it stands for");
  const std::string home = EnvironmentValue("HOME");
  if (home.empty())
    return BadUsage("{} asks for the home folder, and HOME is not set", shown)
        .hint("write the folder that it stands for");
  const std::string_view rest = std::string_view(text).substr(first.size());
  return rest.empty() ? home : JoinPath(home, rest.substr(1));
}

}  // namespace nxdkit
