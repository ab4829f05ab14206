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

// With one slash too, since some programs shorten paths to that.
constexpr std::string_view kSchemes[] = {"s3", "gs", "az", "hdfs", "hf", "http", "https", "file"};

// The part up to the first slash: "~", "$HOME"; the whole path without one.
std::string_view FirstPart(std::string_view path) { return path.substr(0, path.find('/')); }

bool BeginsName(char c) { return c == '_' || (IsAlnum(c) && !IsDigit(c)); }

// "$RUN" of "a-$RUN", "${RUN}" of "${RUN}b", "~you" of "~you"; "" if a shell replaces nothing.
std::string_view Replaceable(std::string_view part, bool is_first) {
  if (is_first && part.starts_with('~')) return part;
  for (size_t at = part.find('$'); at != part.npos; at = part.find('$', at + 1)) {
    const std::string_view here = part.substr(at);
    if (here.size() < 2) continue;
    if (here[1] == '{') return here.substr(0, here.find('}') + 1);
    if (!BeginsName(here[1])) continue;
    const auto* end = std::find_if_not(here.begin() + 1, here.end(),
                                       [](char c) { return IsAlnum(c) || c == '_'; });
    return here.substr(0, static_cast<size_t>(end - here.begin()));
  }
  return "";
}

// Refuses what a shell would replace, unless a file of that very name exists. `text`: as written.
Status RefuseUnreplaced(const std::string& path, const std::string& text) {
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view found =
        Replaceable(std::string_view(path).substr(begin, end - begin), begin == 0);
    if (!found.empty() && KindForHint(path.substr(0, end)) == PathKind::kMissing)
      return BadUsage("{} in {} is not replaced here, only ~ and $HOME at the front are",
                      EscapeControl(found), EscapeControl(text))
          .hint("write what it stands for");
    begin = end + 1;
  }
  return OkStatus();
}

}  // namespace

std::string_view UrlScheme(std::string_view text) {
  const size_t colon = text.find(":/");
  if (colon == text.npos) return "";
  const std::string_view scheme = text.substr(0, colon);
  const bool has_two = text.substr(colon).starts_with("://");
  if (!has_two && std::ranges::find(kSchemes, scheme) == std::end(kSchemes)) return "";
  const bool is_name = std::ranges::all_of(
      scheme, [](char c) { return IsAlnum(c) || c == '+' || c == '-' || c == '.'; });
  return is_name ? scheme : "";
}

Status RefuseUrl(std::string_view text) {
  const std::string_view scheme = UrlScheme(text);
  if (scheme.empty()) return OkStatus();
  const std::string shown = EscapeControl(text);
  Error error = Unsupported("{} is a URL, expected a local path", shown);
  std::string_view rest = text.substr(scheme.size() + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
  if (scheme == kFile) return std::move(error).hint(fmt::format("write /{}", EscapeControl(rest)));
  return std::move(error).hint(
      "mount the storage, or copy the files to or from it with its own tools");
}

Result<std::string> UserPath(const std::string& text) {
  NXDKIT_TRY(RefuseUrl(text));
  const std::string_view first = FirstPart(text);
  if (std::ranges::find(kHomeWords, first) == std::end(kHomeWords)) {
    NXDKIT_TRY(RefuseUnreplaced(text, text));
    return text;
  }
  const std::string home = EnvironmentValue("HOME");
  if (home.empty())
    return BadUsage("{} asks for the home folder, and HOME is not set", EscapeControl(text))
        .hint("write the folder that it stands for");
  const std::string_view rest = std::string_view(text).substr(first.size());
  const std::string path = rest.empty() ? home : JoinPath(home, rest.substr(1));
  NXDKIT_TRY(RefuseUnreplaced(path, text));
  return path;
}

}  // namespace nxdkit
