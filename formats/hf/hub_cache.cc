#include "formats/hf/hub_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "formats/hf/index.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/process.h"

namespace nxdkit::hf {
namespace {

constexpr std::string_view kModels = "models--";
constexpr std::string_view kDatasets = "datasets--";
constexpr size_t kMaxName = 96;    // of each part of a hub name
constexpr uint64_t kMaxRef = 256;  // bytes of refs/main
constexpr int kMaxDepth = 8;       // of folders in a snapshot

bool IsHubPart(std::string_view part) {
  return !part.empty() && part.size() <= kMaxName && part.front() != '.' && part.front() != '-' &&
         std::ranges::all_of(part,
                             [](char c) { return IsAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

// "main", "v1.0", "refs/pr/1", the first digits of a commit.
bool IsRevision(std::string_view text) {
  while (text.find('/') != text.npos) {
    if (!IsHubPart(text.substr(0, text.find('/')))) return false;
    text.remove_prefix(text.find('/') + 1);
  }
  return IsHubPart(text);
}

// "ORG/NAME@REVISION" in two parts; the revision may be left out.
struct Repo {
  std::string name;
  std::string revision;
};
Repo RepoOf(const std::string& text) {
  const size_t at = std::min(text.find('@'), text.size());
  return {text.substr(0, at), at < text.size() ? text.substr(at + 1) : ""};
}

Error Missing(HubKind kind, const Repo& repo, std::string what) {
  return Error(Errc::kNotFound, std::move(what))
      .in(repo.name)
      .hint(fmt::format("hf download {}{}{}{}",
                        kind == HubKind::kDataset ? "--repo-type dataset " : "", repo.name,
                        repo.revision.empty() ? "" : " --revision ", repo.revision));
}

std::string RepoFolder(HubKind kind, const std::string& name) {
  const size_t slash = name.find('/');
  return JoinPath(HubCacheFolder(),
                  fmt::format("{}{}--{}", kind == HubKind::kModel ? kModels : kDatasets,
                              name.substr(0, slash), name.substr(slash + 1)));
}

// The commit of a branch or tag, from refs/; "" if it has none.
Result<std::string> CommitOf(const std::string& repo, const std::string& revision) {
  const std::string ref = JoinPath(JoinPath(repo, "refs"), revision);
  NXDKIT_ASSIGN(const bool there, IsFile(ref));
  if (!there) return std::string();
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(ref, kMaxRef));
  std::string commit = text.substr(0, text.find_last_not_of(" \r\n\t") + 1);
  return IsHubPart(commit) ? commit : std::string();
}

// The folder in snapshots/ of a revision, which may be the first digits of a commit; without a
// revision, that of main, or the only one.
Result<std::string> CommitIn(HubKind kind, const std::string& repo, const Repo& asked) {
  NXDKIT_ASSIGN(std::string commit,
                CommitOf(repo, asked.revision.empty() ? "main" : asked.revision));
  if (!commit.empty()) return commit;
  NXDKIT_ASSIGN(std::vector<std::string> all, ListFolder(JoinPath(repo, "snapshots")));
  std::erase_if(all, [&](const std::string& name) { return !name.starts_with(asked.revision); });
  if (all.size() == 1) return all.front();
  if (!asked.revision.empty())
    return Missing(kind, asked,
                   fmt::format("{} snapshots in the hub's cache are of revision {}", all.size(),
                               EscapeControl(asked.revision)));
  return Missing(
      kind, asked,
      fmt::format("{} snapshots in the hub's cache, and no refs/main that names one", all.size()));
}

// A file of a snapshot whose blob is missing; "" when all are there.
Result<std::string> BrokenLink(const std::string& folder, int depth) {
  if (depth > kMaxDepth) return std::string();
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(folder));
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    const Result<PathKind> kind = KindOf(path);
    if (!kind.ok() && kind.error().code() == Errc::kCorrupt) return name;  // a dangling link
    if (!kind.ok()) return kind.error();
    if (*kind != PathKind::kFolder) continue;
    NXDKIT_ASSIGN(const std::string inside, BrokenLink(path, depth + 1));
    if (!inside.empty()) return JoinPath(name, inside);
  }
  return std::string();
}

// A file that a model needs and the snapshot lacks, as far as names show.
Result<std::string> LackingFile(const std::string& snapshot) {
  NXDKIT_ASSIGN(const bool has_config, HasFile(snapshot, "config.json"));
  if (!has_config) return std::string("config.json");
  const std::string index = JoinPath(snapshot, "model.safetensors.index.json");
  NXDKIT_ASSIGN(const bool has_index, IsFile(index));
  if (!has_index) return std::string();
  const Result<Index> shards = ReadIndex(index, ".safetensors");
  if (!shards.ok()) return std::string();  // opening it will say why
  for (const std::string& file : shards->files) {
    NXDKIT_ASSIGN(const bool there, HasFile(snapshot, file));
    if (!there) return file;
  }
  return std::string();
}

}  // namespace

bool IsHubName(const std::string& text) {
  const Repo repo = RepoOf(text);
  const std::string_view name = repo.name;
  const size_t slash = name.find('/');
  return slash != name.npos && IsHubPart(name.substr(0, slash)) &&
         IsHubPart(name.substr(slash + 1)) &&
         (text.find('@') == text.npos || IsRevision(repo.revision)) &&
         KindForHint(text) == PathKind::kMissing;  // else opening it as a path will say why
}

std::string HubCacheFolder() {
  for (const char* variable : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (std::string value = EnvironmentValue(variable); !value.empty()) return value;
  if (const std::string home = EnvironmentValue("HF_HOME"); !home.empty())
    return JoinPath(home, "hub");
  const std::string cache = EnvironmentValue("XDG_CACHE_HOME");
  return JoinPath(cache.empty() ? JoinPath(EnvironmentValue("HOME"), ".cache") : cache,
                  "huggingface/hub");
}

namespace {

Result<std::string> SnapshotOf(HubKind kind, const std::string& repo, const Repo& asked) {
  NXDKIT_ASSIGN(const std::string commit, CommitIn(kind, repo, asked));
  const std::string snapshot = JoinPath(JoinPath(repo, "snapshots"), commit);
  NXDKIT_ASSIGN(const bool has_snapshot, IsFolder(snapshot));
  if (!has_snapshot)
    return Missing(kind, asked, fmt::format("its snapshot {} is not in the hub's cache", commit));
  NXDKIT_ASSIGN(std::string lacking, BrokenLink(snapshot, 0));
  if (lacking.empty() && kind == HubKind::kModel) {
    NXDKIT_ASSIGN(lacking, LackingFile(snapshot));
  }
  if (!lacking.empty())
    return Missing(
        kind, asked,
        fmt::format("its download into the hub's cache is not finished: there is no {}", lacking));
  return snapshot;
}

}  // namespace

Result<std::string> FindInHubCache(HubKind kind, const std::string& name) {
  const Repo asked = RepoOf(name);
  const std::string repo = RepoFolder(kind, asked.name);
  NXDKIT_ASSIGN(const bool is_there, IsFolder(JoinPath(repo, "snapshots")));
  if (!is_there)
    return Missing(kind, asked,
                   fmt::format("no such file or folder, and it is not in the hub's cache {}",
                               HubCacheFolder()));
  return SnapshotOf(kind, repo, asked);
}

Result<std::string> SnapshotInside(const std::string& path) {
  const std::string name = BaseName(path);
  const bool is_model = name.starts_with(kModels);
  if (!is_model && !name.starts_with(kDatasets)) return path;
  NXDKIT_ASSIGN(const bool is_there, IsFolder(JoinPath(path, "snapshots")));
  if (!is_there) return path;
  std::string repo = name.substr(is_model ? kModels.size() : kDatasets.size());
  if (const size_t dashes = repo.find("--"); dashes != std::string::npos)
    repo.replace(dashes, 2, "/");
  return SnapshotOf(is_model ? HubKind::kModel : HubKind::kDataset, path, {repo, ""});
}

}  // namespace nxdkit::hf
