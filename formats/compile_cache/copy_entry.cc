#include "formats/compile_cache/copy_entry.h"

#include <algorithm>

#include "formats/compile_cache/hlo_module.h"
#include "formats/compile_cache/lite_tree.h"
#include "formats/compile_cache/publish.h"
#include "lib/base/errors.h"
#include "lib/system/copy_file.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/owner.h"

namespace nxdkit::neff {
namespace {

// A suffix like the six X that mkstemp replaces.
std::string SixLetters() {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  uint64_t number = RandomNumber();
  std::string letters;
  for (int i = 0; i < 6; ++i, number /= kLetters.size())
    letters += kLetters[number % kLetters.size()];
  return letters;
}

std::string_view MarkerOf(TreeKind kind) {
  return kind == TreeKind::kLite ? kLiteMarkerFile : kDoneFile;
}

bool IsCopied(const std::string& name) {
  return name != kLiteAccessedFile && !name.ends_with(kLockSuffix) && !ParseLeftover(name);
}

// A path is copied unless its name, or that of a folder above it, is excluded.
bool IsCopiedPath(const std::string& path) {
  for (std::string rest = path; rest != "."; rest = ParentPath(rest))
    if (!IsCopied(BaseName(rest))) return false;
  return true;
}

}  // namespace

Result<std::string> AsideOf(const FoundTree& tree, const std::string& name) {
  std::string path;
  if (tree.kind == TreeKind::kLite) path = JoinPath(tree.root, AsideName(name));
  if (tree.kind == TreeKind::kXla) path = JoinPath(tree.root, AsideName(kMergePrefix));
  if (tree.kind == TreeKind::kNeff)
    path = JoinPath(ParentPath(JoinPath(tree.root, name)), ".tmp." + SixLetters());
  NXDKIT_TRY(MakeFolders(ParentPath(path)));
  NXDKIT_TRY(RemoveTree(path));
  return path;
}

Status CopyEntry(TreeKind kind, const CacheEntry& entry, const std::string& to) {
  if (kind == TreeKind::kNeff) return CopyFileItself(entry.path, to, false);
  NXDKIT_TRY(MakeFolders(to));
  NXDKIT_ASSIGN(const std::vector<TreeEntry> all, ListTree(entry.path));
  const std::string_view marker = MarkerOf(kind);
  for (const TreeEntry& each : all) {
    if (each.path == marker || !IsCopiedPath(each.path)) continue;
    if (each.kind == PathKind::kFolder) NXDKIT_TRY(MakeFolders(JoinPath(to, each.path)));
    if (each.kind == PathKind::kFile)
      NXDKIT_TRY(CopyFileItself(JoinPath(entry.path, each.path), JoinPath(to, each.path), false));
  }
  const std::string last = JoinPath(entry.path, marker);
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(last));
  if (info.kind != PathKind::kFile) return Corrupt("{} is not a file", marker);
  return CopyFileItself(last, JoinPath(to, marker), false);
}

std::string PayloadPath(const FoundTree& tree, const CacheEntry& entry) {
  return tree.kind == TreeKind::kNeff ? entry.path : JoinPath(entry.path, entry.payload);
}

Result<std::optional<std::string>> GraphWithKernels(const std::string& folder) {
  NXDKIT_ASSIGN(std::string graph, ReadSmallFile(JoinPath(folder, kLiteGraphFile), kMaxGraphBytes));
  if (graph.find("eyJ") == std::string::npos) return std::optional<std::string>();
  return std::optional<std::string>(std::move(graph));
}

Status ReplaceGraph(const std::string& folder, std::string_view graph) {
  return WriteAside(JoinPath(folder, kLiteGraphFile), graph);
}

}  // namespace nxdkit::neff
