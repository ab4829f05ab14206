#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "formats/nxd/shard_set.h"
#include "lib/file.h"
#include "lib/system.h"

namespace nxdkit::nxd {

std::string_view SetStyleName(SetStyle style) {
  constexpr std::array<std::string_view, 7> kNames = {
      "v2", "v2 xser", "v2 inline xser", "v1", "v1 xser", "v0", "NeMo Megatron (NNM)"};
  return kNames[static_cast<size_t>(style)];
}

namespace {

struct Ranks {
  int dp = -1, ep = -1, tp = -1, pp = -1;
  std::string suffix;  // what follows the ranks: ".pt", "", ".tensors"
};

// "dp_rank_00_ep_rank_01_tp_rank_03_pp_rank_00.pt": key_rank_number parts joined by '_'.
std::optional<Ranks> ParseName(std::string_view name) {
  Ranks ranks;
  bool any = false;
  while (true) {
    int* slot = nullptr;
    for (const auto& [key, field] : {std::pair{"dp_rank_", &ranks.dp}, {"ep_rank_", &ranks.ep},
                                     {"tp_rank_", &ranks.tp}, {"pp_rank_", &ranks.pp}}) {
      if (!name.starts_with(key)) continue;
      slot = field;
      name.remove_prefix(std::string_view(key).size());
      break;
    }
    if (!slot || *slot != -1) return std::nullopt;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), *slot);
    if (error != std::errc() || *slot < 0 || *slot > 1'000'000) return std::nullopt;
    name.remove_prefix(static_cast<size_t>(end - name.data()));
    any = true;
    if (!name.starts_with("_")) break;
    name.remove_prefix(1);
  }
  if (!any || ranks.tp < 0) return std::nullopt;
  ranks.suffix = name;
  return ranks;
}

bool HasEntries(const std::string& folder) {
  const auto names = ListFolder(folder);
  return names.ok() && !names->empty();
}

// The shard that an entry of the folder is, and its style.
std::optional<std::pair<ShardFile, SetStyle>> ShardOf(const std::string& folder, const std::string& name) {
  const std::optional<Ranks> ranks = ParseName(name);
  if (!ranks) return std::nullopt;
  if (ranks->dp > 0) return std::nullopt;  // copies that data parallel ranks wrote
  ShardFile file{JoinPath(folder, name), ranks->tp, std::max(0, ranks->pp), std::max(0, ranks->ep)};
  const PathKind kind = KindOf(file.path);
  if (ranks->suffix == ".pt" && ranks->pp >= 0 && kind == PathKind::kFile) {
    const std::string tensors = file.path + ".tensors";
    if (KindOf(tensors) != PathKind::kFolder) return std::pair{file, SetStyle::kV2};
    const bool by_reference = HasEntries(tensors) || KindOf(file.path + ".info.pt") == PathKind::kFile;
    return std::pair{file, by_reference ? SetStyle::kV2Xser : SetStyle::kInlineXser};
  }
  if (!ranks->suffix.empty()) return std::nullopt;
  if (kind == PathKind::kFile)
    return std::pair{file, KindOf(file.path + ".tensors") == PathKind::kFolder ? SetStyle::kV1Xser
                           : ranks->pp < 0                                    ? SetStyle::kV0
                                                                              : SetStyle::kV1Xser};
  if (kind != PathKind::kFolder) return std::nullopt;
  for (const auto& [inner, style] : {std::pair{"checkpoint.pt", SetStyle::kV1},
                                     {"model_optim_rng.ckpt", SetStyle::kNnm}}) {
    const std::string path = JoinPath(file.path, inner);
    if (KindOf(path) != PathKind::kFile) continue;
    file.path = path;
    return std::pair{file, style};
  }
  return std::nullopt;
}

struct Found {
  std::vector<ShardFile> files;
  SetStyle style = SetStyle::kV2;
};

Found ShardsIn(const std::string& folder) {
  Found found;
  const auto names = ListFolder(folder);
  if (!names.ok()) return found;
  for (const std::string& name : *names) {
    auto shard = ShardOf(folder, name);
    if (!shard) continue;
    found.style = shard->second;
    found.files.push_back(std::move(shard->first));
  }
  return found;
}

bool IsFile(const std::string& folder, const char* name) {
  return KindOf(JoinPath(folder, name)) == PathKind::kFile;
}

// The sizes of the axes, and a complete, ordered grid.
Status CheckGrid(SetLocation& set) {
  std::map<std::array<int, 3>, const ShardFile*> grid;
  for (const ShardFile& file : set.files) {
    set.tp = std::max(set.tp, file.tp + 1);
    set.pp = std::max(set.pp, file.pp + 1);
    set.ep = std::max(set.ep, file.ep + 1);
    const auto [it, added] = grid.emplace(std::array{file.tp, file.pp, file.ep}, &file);
    if (!added)
      return Error(Errc::kCorrupt, fmt::format("two files hold tp rank {}, pp rank {}: {} and {}", file.tp,
                                               file.pp, BaseName(it->second->path), BaseName(file.path)))
          .in(set.shard_folder);
  }
  const uint64_t expected = uint64_t(set.tp) * uint64_t(set.pp) * uint64_t(set.ep);
  std::string missing;
  uint64_t shown = 0;
  for (int t = 0; t < set.tp && shown < 4; ++t)
    for (int p = 0; p < set.pp && shown < 4; ++p)
      for (int e = 0; e < set.ep && shown < 4; ++e) {
        if (grid.contains({t, p, e})) continue;
        missing += fmt::format("{}tp_rank_{:02d}_pp_rank_{:02d}", shown++ ? ", " : "", t, p);
        if (set.ep > 1) missing += fmt::format("_ep_rank_{:02d}", e);
      }
  if (grid.size() != expected)
    return Error(Errc::kCorrupt, fmt::format("incomplete set: {} shard files found, {} expected for tp {} pp {}{}; "
                                             "missing {}{}", grid.size(), expected, set.tp, set.pp,
                                             set.ep > 1 ? fmt::format(" ep {}", set.ep) : "", missing,
                                             expected - grid.size() > shown ? ", ..." : ""))
        .in(set.shard_folder);
  std::vector<ShardFile> ordered;
  for (const auto& [ranks, file] : grid) ordered.push_back(*file);
  set.files = std::move(ordered);
  return OkStatus();
}

Result<SetLocation> MakeLocation(const std::string& tag_folder, const std::string& shard_folder, Found found) {
  SetLocation set;
  set.shard_folder = shard_folder;
  set.tag_folder = tag_folder;
  set.root = ParentPath(tag_folder);
  set.tag = BaseName(tag_folder);
  set.style = found.style;
  set.files = std::move(found.files);
  set.has_markers = set.style == SetStyle::kV2 || set.style == SetStyle::kV2Xser || set.style == SetStyle::kInlineXser;
  set.finished = IsFile(tag_folder, "done");
  NXDKIT_TRY(CheckGrid(set));
  if (set.has_markers && !set.finished)
    set.warnings.push_back(fmt::format("{} has no `done` marker: the save may not have finished", tag_folder));
  return set;
}

struct Tag {
  std::string name;
  int64_t seconds = 0;
  int64_t nanoseconds = 0;
  bool finished = false;
};

std::vector<Tag> TagsOf(const std::string& root) {
  std::vector<Tag> tags;
  const auto names = ListFolder(root);
  if (!names.ok()) return tags;
  for (const std::string& name : *names) {
    const std::string folder = JoinPath(root, name);
    if (KindOf(JoinPath(folder, "model")) != PathKind::kFolder) continue;
    struct stat info;
    const bool finished = ::stat(JoinPath(folder, "done").c_str(), &info) == 0;
    tags.push_back({name, finished ? info.st_mtim.tv_sec : 0, finished ? info.st_mtim.tv_nsec : 0, finished});
  }
  return tags;
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
  if (unfinished.empty()) return Error(Errc::kNotFound, "no NxD shard set found: neither shard files, nor model/, nor tag folders").in(root);
  return Error(Errc::kCorrupt, fmt::format("no finished tag; without a `done` marker: {}", unfinished))
      .in(root)
      .hint("name one with --tag to read it all the same");
}

}  // namespace

bool LooksLikeShardSet(const std::string& path) {
  if (KindOf(path) != PathKind::kFolder) return false;
  return !ShardsIn(path).files.empty() || !ShardsIn(JoinPath(path, "model")).files.empty() || !TagsOf(path).empty();
}

std::vector<TagFolder> ListTags(const std::string& path) {
  std::vector<TagFolder> folders;
  for (const Tag& tag : TagsOf(path)) folders.push_back({tag.name, tag.finished});
  return folders;
}

std::optional<ShardFile> ShardOfPath(const std::string& path) {
  const std::string folder = ParentPath(path);
  // v1 and NNM: the ranks are in the name of the folder around the file.
  for (const std::string& shard : {path, folder}) {
    const auto found = ShardOf(ParentPath(shard), BaseName(shard));
    if (found && SamePath(found->first.path, path)) return found->first;
  }
  return std::nullopt;
}

Result<SetLocation> Locate(const std::string& path, const std::optional<std::string>& tag) {
  const PathKind kind = KindOf(path);
  if (kind == PathKind::kMissing) return Error(Errc::kNotFound, "no such file or folder").in(path);
  if (kind != PathKind::kFolder) return Error(Errc::kUnsupported, "an NxD shard set is a folder; this is a file").in(path);
  std::string tag_folder = path;
  if (tag) {
    if (tag->empty() || tag->find('/') != std::string::npos || *tag == "." || *tag == "..")
      return Error(Errc::kUsage, fmt::format("--tag \"{}\" is not the name of a folder", *tag));
    tag_folder = JoinPath(path, *tag);
    if (KindOf(tag_folder) != PathKind::kFolder) return Error(Errc::kNotFound, fmt::format("no tag \"{}\"", *tag)).in(path);
  } else if (Found direct = ShardsIn(path); !direct.files.empty()) {
    const bool inside_tag = BaseName(path) == "model";
    return MakeLocation(inside_tag ? ParentPath(path) : path, path, std::move(direct));
  }
  const std::string model = JoinPath(tag_folder, "model");
  if (Found shards = ShardsIn(model); !shards.files.empty()) return MakeLocation(tag_folder, model, std::move(shards));
  if (tag) {
    if (Found shards = ShardsIn(tag_folder); !shards.files.empty()) return MakeLocation(tag_folder, tag_folder, std::move(shards));
    return Error(Errc::kNotFound, "the tag folder holds no shard files").in(tag_folder);
  }
  NXDKIT_ASSIGN(const std::string latest, LatestTag(path));
  tag_folder = JoinPath(path, latest);
  Found shards = ShardsIn(JoinPath(tag_folder, "model"));
  if (shards.files.empty()) return Error(Errc::kCorrupt, "the finished tag holds no shard files").in(JoinPath(tag_folder, "model"));
  return MakeLocation(tag_folder, JoinPath(tag_folder, "model"), std::move(shards));
}

}  // namespace nxdkit::nxd
