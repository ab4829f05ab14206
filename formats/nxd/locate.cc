#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <tuple>

#include "formats/nxd/grid.h"
#include "formats/nxd/refuse.h"
#include "formats/nxd/shards_in.h"
#include "lib/system/folders.h"

namespace nxdkit::nxd {

namespace {

bool IsFile(const std::string& folder, const char* name) {
  return KindOf(JoinPath(folder, name)) == PathKind::kFile;
}

// Output that another command is still building, or was when it was killed: never a finished tag.
bool IsPartial(const std::string& folder) { return BaseName(folder).ends_with(".partial"); }

// ParentPath that also steps out of "." and "..".
std::string FolderAbove(const std::string& path) {
  const std::string name = BaseName(path);
  return name == "." || name == ".." ? JoinPath(path, "..") : ParentPath(path);
}

Result<SetLocation> MakeLocation(const std::string& tag_folder, const std::string& shard_folder,
                                 ShardsFound found) {
  SetLocation set;
  set.shard_folder = shard_folder;
  set.tag_folder = tag_folder;
  set.root = FolderAbove(tag_folder);
  set.tag = BaseName(tag_folder);
  NXDKIT_ASSIGN(set.style, OneStyle(found.styles, shard_folder));
  set.files = std::move(found.files);
  set.has_markers = IsV2(set.style);
  set.finished = IsFile(tag_folder, "done") && !IsPartial(tag_folder);
  NXDKIT_ASSIGN(const GridSizes sizes, OrderGrid(set.files, shard_folder));
  set.tp = sizes.tp;
  set.pp = sizes.pp;
  set.ep = sizes.ep;
  if (set.has_markers && !set.finished)
    set.warnings.push_back(
        fmt::format("{} has no `done` marker: the save may not have finished", tag_folder));
  return set;
}

struct Tag {
  std::string name;
  int64_t seconds = 0;  // of `done`
  int64_t nanoseconds = 0;
  bool finished = false;
};

// The tags of a root: what has a marker, or (a converter's output) shards in model/.
std::vector<Tag> TagsOf(const std::string& root) {
  std::vector<Tag> tags;
  const auto names = ListFolder(root);
  if (!names.ok()) return tags;
  for (const std::string& name : *names) {
    const std::string folder = JoinPath(root, name);
    if (KindOf(folder) != PathKind::kFolder || IsPartial(folder)) continue;
    struct stat info;
    const bool finished =
        ::stat(JoinPath(folder, "done").c_str(), &info) == 0 && S_ISREG(info.st_mode);
    if (finished)
      tags.push_back({name, info.st_mtim.tv_sec, info.st_mtim.tv_nsec, true});
    else if (IsFile(folder, "checkpoint") || !ShardsIn(JoinPath(folder, "model")).files.empty())
      tags.push_back({name});
  }
  return tags;
}

bool HasModel(const std::string& root, const Tag& tag) {
  return !ShardsIn(JoinPath(JoinPath(root, tag.name), "model")).files.empty();
}

Error NothingHere(const std::string& path, std::string what) {
  if (std::optional<Error> refused = RefuseByName(path)) return *std::move(refused);
  return Error(Errc::kNotFound, std::move(what)).in(path);
}

// The finished tag whose `done` is newest; on equal times the last by name.
Result<std::string> LatestTag(const std::string& root) {
  const std::vector<Tag> tags = TagsOf(root);
  const Tag* latest = nullptr;
  std::string unfinished;
  for (const Tag& tag : tags) {
    if (!tag.finished) {
      unfinished += (unfinished.empty() ? "" : ", ") + tag.name;
      continue;
    }
    if (!latest || std::tie(tag.seconds, tag.nanoseconds, tag.name) >
                       std::tie(latest->seconds, latest->nanoseconds, latest->name))
      latest = &tag;
  }
  if (latest) return latest->name;
  if (unfinished.empty())
    return NothingHere(root,
                       "no NxD shard set found: neither shard files, nor model/, nor tag folders");
  return Error(Errc::kCorrupt,
               fmt::format("no finished tag; without a `done` marker: {}", unfinished))
      .in(root)
      .hint("name one with --tag to read it all the same");
}

Result<SetLocation> LocateTag(const std::string& tag_folder) {
  const std::string model = JoinPath(tag_folder, "model");
  if (ShardsFound shards = ShardsIn(model); !shards.files.empty())
    return MakeLocation(tag_folder, model, std::move(shards));
  if (ShardsFound shards = ShardsIn(tag_folder); !shards.files.empty())
    return MakeLocation(tag_folder, tag_folder, std::move(shards));
  return NothingHere(tag_folder, "the tag folder holds no shard files");
}

// A folder that holds the shards itself: model/ of a tag, or an old style's own folder.
Result<SetLocation> LocateShards(const std::string& path, ShardsFound shards) {
  const std::string above = FolderAbove(path);
  const bool inside_tag =
      IsV2(*shards.styles.begin()) &&
      (BaseName(path) == "model" || IsFile(above, "checkpoint") || IsFile(above, "done"));
  return MakeLocation(inside_tag ? above : path, path, std::move(shards));
}

Status CheckTagName(std::string_view tag) {
  if (!tag.empty() && tag.find('/') == std::string_view::npos && tag != "." && tag != "..")
    return OkStatus();
  return Error(Errc::kUsage, fmt::format("--tag \"{}\" is not the name of a folder", tag));
}

}  // namespace

bool LooksLikeShardSet(const std::string& path) {
  if (KindOf(path) != PathKind::kFolder) return false;
  if (!ShardsIn(path).files.empty() || !ShardsIn(JoinPath(path, "model")).files.empty())
    return true;
  return std::ranges::any_of(TagsOf(path), [&](const Tag& tag) { return HasModel(path, tag); });
}

std::vector<TagFolder> ListTags(const std::string& path) {
  std::vector<TagFolder> folders;
  for (const Tag& tag : TagsOf(path)) folders.push_back({tag.name, tag.finished});
  return folders;
}

Result<SetLocation> Locate(const std::string& path, const std::optional<std::string>& tag) {
  const PathKind kind = KindOf(path);
  if (kind == PathKind::kMissing) return Error(Errc::kNotFound, "no such file or folder").in(path);
  if (kind != PathKind::kFolder)
    return Error(Errc::kUnsupported, "an NxD shard set is a folder; this is a file").in(path);
  if (tag) {
    NXDKIT_TRY(CheckTagName(*tag));
    const std::string tag_folder = JoinPath(path, *tag);
    if (KindOf(tag_folder) != PathKind::kFolder)
      return Error(Errc::kNotFound, fmt::format("no tag \"{}\"", *tag)).in(path);
    return LocateTag(tag_folder);
  }
  if (ShardsFound direct = ShardsIn(path); !direct.files.empty())
    return LocateShards(path, std::move(direct));
  if (!ShardsIn(JoinPath(path, "model")).files.empty()) return LocateTag(path);
  NXDKIT_ASSIGN(const std::string latest, LatestTag(path));
  return LocateTag(JoinPath(path, latest));
}

}  // namespace nxdkit::nxd
