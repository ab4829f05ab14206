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

constexpr size_t kMaxName = 96;    // of the hub, each part
constexpr uint64_t kMaxRef = 256;  // bytes of refs/main
constexpr int kMaxDepth = 8;       // of folders in a snapshot

bool IsHubPart(std::string_view part) {
  return !part.empty() && part.size() <= kMaxName && part.front() != '.' && part.front() != '-' &&
         std::ranges::all_of(part,
                             [](char c) { return IsAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

Error Missing(HubKind kind, const std::string& name, Error error) {
  return std::move(error).in(name).hint(fmt::format(
      "hf download {}{}", kind == HubKind::kDataset ? "--repo-type dataset " : "", name));
}

std::string RepoFolder(HubKind kind, const std::string& name) {
  const size_t slash = name.find('/');
  return JoinPath(HubCacheFolder(),
                  fmt::format("{}--{}--{}", kind == HubKind::kModel ? "models" : "datasets",
                              name.substr(0, slash), name.substr(slash + 1)));
}

// The commit of refs/main; "" where there is none.
Result<std::string> MainCommit(const std::string& repo) {
  const std::string ref = JoinPath(repo, "refs/main");
  NXDKIT_ASSIGN(const bool there, IsFile(ref));
  if (!there) return std::string();
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(ref, kMaxRef));
  std::string commit = text.substr(0, text.find_last_not_of(" \r\n\t") + 1);
  return IsHubPart(commit) ? commit : std::string();
}

// A file of a snapshot whose blob is not there; "" when all are.
Result<std::string> BrokenLink(const std::string& folder, int depth) {
  if (depth > kMaxDepth) return std::string();
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(folder));
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    const Result<PathKind> kind = KindOf(path);
    if (!kind.ok() && kind.error().code() == Errc::kCorrupt) return name;  // it leads to nothing
    if (!kind.ok()) return kind.error();
    if (*kind != PathKind::kFolder) continue;
    NXDKIT_ASSIGN(const std::string inside, BrokenLink(path, depth + 1));
    if (!inside.empty()) return JoinPath(name, inside);
  }
  return std::string();
}

// What a model needs and the snapshot does not have, as far as names tell.
Result<std::string> LackingFile(const std::string& snapshot) {
  NXDKIT_ASSIGN(const bool has_config, HasFile(snapshot, "config.json"));
  if (!has_config) return std::string("config.json");
  const std::string index = JoinPath(snapshot, "model.safetensors.index.json");
  NXDKIT_ASSIGN(const bool has_index, IsFile(index));
  if (!has_index) return std::string();
  const Result<Index> shards = ReadIndex(index, ".safetensors");
  if (!shards.ok()) return std::string();  // who opens it says why
  for (const std::string& file : shards->files) {
    NXDKIT_ASSIGN(const bool there, HasFile(snapshot, file));
    if (!there) return file;
  }
  return std::string();
}

}  // namespace

bool IsHubName(const std::string& text) {
  const size_t slash = text.find('/');
  return slash != std::string::npos && IsHubPart(std::string_view(text).substr(0, slash)) &&
         IsHubPart(std::string_view(text).substr(slash + 1)) &&
         KindForHint(text) == PathKind::kMissing;  // else who opens it as a path says why
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

Result<std::string> FindInHubCache(HubKind kind, const std::string& name) {
  const std::string repo = RepoFolder(kind, name);
  const std::string snapshots = JoinPath(repo, "snapshots");
  NXDKIT_ASSIGN(const bool is_there, IsFolder(snapshots));
  if (!is_there)
    return Missing(
        kind, name,
        NotFound("no such file or folder, and it is not in the hub's cache {}", HubCacheFolder()));
  NXDKIT_ASSIGN(std::string commit, MainCommit(repo));
  if (commit.empty()) {
    NXDKIT_ASSIGN(const std::vector<std::string> all, ListFolder(snapshots));
    if (all.size() != 1)
      return Missing(
          kind, name,
          NotFound("{} snapshots in the hub's cache, and no refs/main that names one", all.size()));
    commit = all.front();
  }
  const std::string snapshot = JoinPath(snapshots, commit);
  NXDKIT_ASSIGN(const bool has_snapshot, IsFolder(snapshot));
  if (!has_snapshot)
    return Missing(kind, name, NotFound("its snapshot {} is not in the hub's cache", commit));
  NXDKIT_ASSIGN(std::string lacking, BrokenLink(snapshot, 0));
  if (lacking.empty() && kind == HubKind::kModel) NXDKIT_TRY(LackingFile(snapshot).To(lacking));
  if (!lacking.empty())
    return Missing(
        kind, name,
        NotFound("its download into the hub's cache is not finished: there is no {}", lacking));
  return snapshot;
}

}  // namespace nxdkit::hf
