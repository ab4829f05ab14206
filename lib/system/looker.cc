#include "lib/system/looker.h"

#include <map>
#include <optional>

#include "lib/system/paths.h"

namespace nxdkit {

struct Looker::Seen {
  // By name; no kind where the listing does not give it.
  using Listing = std::map<std::string, std::optional<PathKind>>;

  std::map<std::string, PathKind> kinds;                  // by path as it was asked
  std::map<std::string, std::optional<Listing>> folders;  // nullopt: it cannot be listed

  // The answer for the path, if earlier answers imply it.
  std::optional<PathKind> KindOf(const std::string& path) const {
    if (const auto asked = kinds.find(path); asked != kinds.end()) return asked->second;
    const std::string name = BaseName(path);
    if (path.ends_with('/') || name.empty() || name == "." || name == "..") return std::nullopt;
    const std::string folder = ParentPath(path);
    const auto listed = folders.find(folder);
    if (listed != folders.end() && listed->second) {
      const auto entry = listed->second->find(name);
      return entry == listed->second->end() ? PathKind::kMissing : entry->second;
    }
    if (folder == path || folder == ".") return std::nullopt;
    const std::optional<PathKind> around = KindOf(folder);
    const bool nothing_in_it = around == PathKind::kMissing || around == PathKind::kFile;
    return nothing_in_it ? std::optional(PathKind::kMissing) : std::nullopt;
  }

  const std::optional<Listing>& List(const std::string& path) {
    const std::string folder = ParentPath(JoinPath(path, "name"));  // without a trailing slash
    const auto [at, is_new] = folders.try_emplace(folder);
    if (!is_new || KindOf(folder).value_or(PathKind::kFolder) != PathKind::kFolder)
      return at->second;
    const Result<std::vector<FolderEntry>> entries = ListEntries(folder);
    if (!entries.ok()) {
      const Result<PathKind> kind = nxdkit::KindOf(folder);
      if (kind.ok()) kinds.emplace(folder, *kind);
      return at->second;
    }
    at->second.emplace();
    for (const auto& [name, kind] : *entries)  // links have to be followed
      at->second->emplace(name, kind == PathKind::kLink ? std::nullopt : kind);
    return at->second;
  }
};

Looker::Looker() : seen_(std::make_shared<Seen>()) {}

Result<PathKind> Looker::KindOf(const std::string& path) const {
  if (const std::optional<PathKind> known = seen_->KindOf(path)) return *known;
  NXDKIT_ASSIGN(const PathKind kind, nxdkit::KindOf(path));
  seen_->kinds.emplace(path, kind);
  return kind;
}

Result<bool> Looker::IsThere(const std::string& path) const {
  NXDKIT_ASSIGN(const bool missing, Is(path, PathKind::kMissing));
  return !missing;
}

Result<bool> Looker::Is(const std::string& path, PathKind wanted) const {
  NXDKIT_ASSIGN(const PathKind kind, KindOf(path));
  return kind == wanted;
}

Result<bool> Looker::HasFile(const std::string& folder, std::string_view name) const {
  seen_->List(folder);
  return IsFile(JoinPath(folder, name));
}

Result<std::vector<std::string>> Looker::ListFolder(const std::string& path) const {
  const auto& listing = seen_->List(path);
  if (!listing) return nxdkit::ListFolder(path);
  std::vector<std::string> names;
  for (const auto& [name, kind] : *listing) names.push_back(name);
  return names;
}

Result<std::vector<std::string>> Looker::ListIfThere(const std::string& path) const {
  if (seen_->List(path)) return ListFolder(path);
  if (seen_->KindOf(path).value_or(PathKind::kFolder) == PathKind::kFolder)
    return nxdkit::ListIfThere(path);
  return std::vector<std::string>();
}

}  // namespace nxdkit
