#include "formats/kinds/nearby.h"

#include <algorithm>

#include "formats/compile_cache/cache.h"
#include "formats/hf/hub_cache.h"
#include "formats/kinds/run_folder.h"
#include "formats/kinds/table.h"
#include "lib/base/choice.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

constexpr int kMostFolders = 300;  // looked at
constexpr int kDepth = 2;

bool IsArtifact(const std::string& path, const Looker& look) {
  const Result<RunCheckpoint> found = FindCheckpoint(path, look);
  if (!found.ok()) return false;
  // A run, or a model in the hub's cache, complete or not: opening it will tell.
  const Result<std::string> snapshot = hf::SnapshotInside(path);
  if (found->path != path || !snapshot.ok() || *snapshot != path) return true;
  const Result<bool> cache = neff::LooksLikeCache(path, look);
  if (cache.ok() && *cache) return true;
  return std::ranges::any_of(Kinds(), [&](const Kind* kind) {
    const Result<bool> fits = kind->is_folder ? kind->is_folder(path, look) : Result<bool>(false);
    const Result<bool> adapter =
        kind->is_adapter ? kind->is_adapter(path, look) : Result<bool>(false);
    return (fits.ok() && *fits) || (adapter.ok() && *adapter);
  });
}

// The highest number first; names without one come last.
bool IsNewer(const std::string& a, const std::string& b) {
  const std::optional<NameNumber> of_a = NumberOfName(BaseName(a));
  const std::optional<NameNumber> of_b = NumberOfName(BaseName(b));
  if (!of_a || !of_b) return of_a.has_value() && !of_b;
  if (of_a->counts != of_b->counts) return of_a->counts < of_b->counts;
  return of_a->CompareNumber(*of_b) > 0;
}

struct Search {
  const std::string& root;
  const Looker& look;
  std::vector<std::string> found;  // below the root
  int folders_left = kMostFolders;

  void Below(const std::string& folder, int depth) {
    const std::string whole = folder.empty() ? root : JoinPath(root, folder);
    const Result<std::vector<std::string>> names = look.ListIfThere(whole);
    if (!names.ok()) return;
    std::vector<std::string> others;
    for (const std::string& name : *names) {
      const Result<bool> is_folder = look.IsFolder(JoinPath(whole, name));
      if (name.starts_with('.') || !is_folder.ok() || !*is_folder) continue;
      if (folders_left-- <= 0) return;
      std::string path = folder.empty() ? name : JoinPath(folder, name);
      auto& to = IsArtifact(JoinPath(root, path), look) ? found : others;
      to.push_back(std::move(path));
    }
    if (depth == 1) return;
    for (const std::string& path : others) Below(path, depth - 1);
  }
};

}  // namespace

std::vector<std::string> ArtifactsBelow(const std::string& path, const Looker& look) {
  Search search{path, look, {}};
  search.Below("", kDepth);
  std::ranges::stable_sort(search.found, IsNewer);
  return std::move(search.found);
}

std::string ArtifactAround(const std::string& path, const Looker& look) {
  const Result<std::string> real = RealPath(path);
  if (!real.ok()) return "";
  std::string above = *real;
  for (int level = 0; level < kDepth; ++level) {
    const std::string next = ParentPath(above);
    if (next == above || next == "/") return "";
    above = next;
    if (IsArtifact(above, look)) return above;
  }
  return "";
}

}  // namespace nxdkit::kinds
