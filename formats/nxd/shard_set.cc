#include "formats/nxd/shard_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "formats/nxd/grid.h"
#include "formats/nxd/nnm_names.h"
#include "formats/nxd/refuse.h"
#include "formats/nxd/shards_in.h"
#include "formats/nxd/tensor_files.h"
#include "formats/torch/archive.h"
#include "lib/base/choice.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "lib/system/system.h"

namespace nxdkit::nxd {
namespace {

// Output that another command is still building, or was building when killed: never a finished tag.
bool IsPartial(const std::string& folder) { return BaseName(folder).ends_with(".partial"); }

Result<SetLocation> MakeLocation(const std::string& tag_folder, const std::string& shard_folder,
                                 ShardsFound found, const Looker& look) {
  SetLocation set;
  set.shard_folder = shard_folder;
  set.tag_folder = tag_folder;
  set.root = FolderAbove(tag_folder);
  set.tag = BaseName(tag_folder);
  NXDKIT_ASSIGN(set.style, OneStyle(found.styles, shard_folder));
  set.files = std::move(found.files);
  set.has_markers = IsV2(set.style);
  NXDKIT_ASSIGN(const bool done, look.IsFile(JoinPath(tag_folder, "done")));
  set.finished = done && !IsPartial(tag_folder);
  NXDKIT_ASSIGN(const GridSizes sizes, OrderGrid(set.files, shard_folder));
  set.tp = sizes.tp;
  set.pp = sizes.pp;
  set.ep = sizes.ep;
  if (set.has_markers && !set.finished)
    set.warnings.push_back(
        fmt::format("{} has no `done` marker: the save may not have finished", tag_folder));
  return set;
}

Error NothingHere(const std::string& path, std::string what, const Looker& look) {
  if (Status refused = RefuseByName(path, look); !refused.ok()) return std::move(refused).error();
  return Error(Errc::kNotFound, std::move(what)).in(path);
}

struct LatestTag {
  std::string name;
  std::optional<Choice> choice;
  std::string doubt;  // as Newest::doubt
};

Error NoFinishedTag(const std::string& root, const std::vector<std::string>& unfinished,
                    const Looker& look) {
  if (unfinished.empty())
    return NothingHere(
        root, "no NxD shard set found: neither shard files, nor model/, nor tag folders", look);
  return Corrupt("no finished tag; without a `done` marker: {}", FirstNames(unfinished, 20))
      .in(root)
      .hint("name one with --tag to read it anyway");
}

// The newest finished tag.
Result<LatestTag> FindLatestTag(const std::string& root, const Looker& look) {
  std::vector<DatedName> finished;
  std::vector<std::string> names, unfinished;
  Result<std::vector<TagFolder>> tags = ListTags(root, look);
  if (!tags.ok()) return std::move(tags).error().hint("name one with --tag to skip this one");
  for (const TagFolder& tag : *tags) {
    (tag.finished ? names : unfinished).push_back(tag.name);
    if (tag.finished) finished.push_back({tag.name, tag.done_at});
  }
  if (finished.empty()) return NoFinishedTag(root, unfinished, look);
  const std::optional<Newest> newest = FindNewest(finished);
  if (!newest)
    return BadUsage("neither names nor times tell which of {} finished tags is the newest: {}",
                    names.size(), FirstNames(names))
        .in(root)
        .hint("name one with --tag");
  LatestTag latest{names[newest->index], std::nullopt, newest->doubt};
  if (names.size() > 1)
    latest.choice = Choice{JoinPath(root, latest.name), names.size(), newest->by};
  return latest;
}

Result<SetLocation> LocateTag(const std::string& tag_folder, const Looker& look) {
  for (const std::string& folder : {JoinPath(tag_folder, "model"), tag_folder}) {
    NXDKIT_ASSIGN(ShardsFound shards, ShardsIn(folder, look));
    if (!shards.files.empty()) return MakeLocation(tag_folder, folder, std::move(shards), look);
  }
  return NothingHere(tag_folder, "the tag folder holds no shard files", look);
}

// A folder that holds the shards itself: model/ of a tag, or an old style's own folder.
Result<SetLocation> LocateShards(const std::string& path, ShardsFound shards, const Looker& look) {
  const std::string above = FolderAbove(path);
  NXDKIT_ASSIGN(const bool has_checkpoint, look.IsFile(JoinPath(above, "checkpoint")));
  NXDKIT_ASSIGN(const bool has_done, look.IsFile(JoinPath(above, "done")));
  const bool inside_tag =
      IsV2(*shards.styles.begin()) && (BaseName(path) == "model" || has_checkpoint || has_done);
  return MakeLocation(inside_tag ? above : path, path, std::move(shards), look);
}

Status CheckTagName(std::string_view tag) {
  if (!tag.empty() && tag.find('/') == std::string_view::npos && tag != "." && tag != "..")
    return OkStatus();
  return BadUsage("--tag \"{}\" is not the name of a folder", tag);
}

class SetReader {
 public:
  SetReader(const SetLocation& location, const Looker& look)
      : location_(location), look_(look), files_(location.files.size()) {}

  Result<Shard> ReadShard(const ShardFile& file) {
    NXDKIT_ASSIGN(const torch::Archive archive, torch::ReadArchive(file.path));
    const torch::PickleDict* dict = StateDict(archive.root);
    if (!dict) return NoStateDict(archive.root).member("data.pkl");
    Shard shard{file, {archive.path, archive.format, archive.file_bytes, {}, {}}};
    std::set<std::string> names;
    for (const auto& [key, value] : *dict) {
      const std::string* name = key.string();
      if (!name) return Corrupt("a key of the state dict is not a string").member("data.pkl");
      if (!value.tensor() && !value.reference()) {
        Skip(*name, value);
        continue;
      }
      if (!names.insert(*name).second)
        return Corrupt("the state dict names the tensor twice").on(*name);
      if (const torch::TensorIndex* index = value.tensor()) {
        shard.tensors.tensors.push_back(files_.Inside(archive, index->index));
      } else {
        NXDKIT_ASSIGN(StoredTensor tensor,
                      Resolve(file, value.reference()->tid, shard.tensors.file_bytes).on(*name));
        shard.tensors.tensors.push_back(std::move(tensor));
      }
      shard.tensors.tensors.back().name = *name;
      CountChecksum(shard.tensors.tensors.back(), archive);
    }
    return shard;
  }

  std::vector<std::string> skipped() const { return {skipped_.begin(), skipped_.end()}; }
  const std::string& optimizer_entry() const { return optimizer_entry_; }
  // A warning that lists the tensors of zip archives without a checksum.
  std::optional<std::string> Unchecked() const {
    if (unchecked_ == 0) return std::nullopt;
    return fmt::format(
        "{} tensors have no checksum (CRC 0), so damage to them cannot be detected; the first is "
        "{}",
        unchecked_, first_unchecked_);
  }

 private:
  void CountChecksum(const StoredTensor& tensor, const torch::Archive& archive) {
    const bool stored = tensor.storage->is_file_range() && tensor.storage->bytes() > 0;
    if (archive.format != "torch zip" || !stored || tensor.storage->checked()) return;
    if (unchecked_++ == 0)
      first_unchecked_ = fmt::format("{} in {}", tensor.name, tensor.storage->path());
  }

  void Skip(const std::string& name, const torch::PickleValue& value) {
    skipped_.insert(name);
    // A count of steps or the name of the optimizer alone is not state.
    const bool holds =
        (value.dict() && !value.dict()->empty()) || (value.list() && !value.list()->empty());
    if (name.find("optim") != std::string::npos && holds) optimizer_entry_ = name;
  }

  static bool HoldsTensors(const torch::PickleDict& dict) {
    for (const auto& [key, value] : dict)
      if (key.string() && (value.tensor() || value.reference())) return true;
    return false;
  }

  // The flat state dict: the value that the caller of save wrapped, or the root itself.
  const torch::PickleDict* StateDict(const torch::PickleValue& root) {
    const torch::PickleDict* dict = root.dict();
    if (!dict) return nullptr;
    if (const torch::PickleDict* inner = Unwrap(root, HoldsTensors)) return inner;
    if (HoldsTensors(*dict) || dict->empty()) return dict;
    // An expert parallel rank of a dense model may hold nothing.
    return Unwrap(root, [](const torch::PickleDict& inner) { return inner.empty(); });
  }

  const torch::PickleDict* Unwrap(const torch::PickleValue& root,
                                  bool (*fits)(const torch::PickleDict&)) {
    for (const char* wrapper : torch::StateDictNames()) {
      const torch::PickleValue* inner = root.Find(wrapper);
      if (!inner || !inner->dict() || !fits(*inner->dict())) continue;
      for (const auto& [key, value] : *root.dict())
        if (key.string() && *key.string() != wrapper) Skip(*key.string(), value);
      return inner->dict();
    }
    return nullptr;
  }

  static Error NoStateDict(const torch::PickleValue& root) {
    if (root.Find("param_groups"))
      return Unsupported("the archive holds the state of an optimizer (param_groups), no weights");
    return Corrupt(
        "the archive holds no dictionary of tensors, neither at its top nor under \"model\" or "
        "\"state_dict\"");
  }

  // Adds the size of the tensor's file to `file_bytes`.
  Result<StoredTensor> Resolve(const ShardFile& file, int64_t tid, uint64_t& file_bytes) {
    std::string path = TensorFiles::PathOf(file.path, tid);
    NXDKIT_ASSIGN(bool there, look_.IsFile(path));
    if (!there && file.ep > 0) {
      path = TensorFiles::PathOf(FirstExpertRank(file), tid);
      NXDKIT_ASSIGN(there, look_.IsFile(path));
    }
    if (!there) return MissingTensorFile(file, path);
    return files_.Open(path, file_bytes);
  }

  // Tensors outside experts are written by expert parallel rank 0 only.
  std::string FirstExpertRank(const ShardFile& file) const {
    for (const ShardFile& other : location_.files)
      if (other.tp == file.tp && other.pp == file.pp && other.ep == 0) return other.path;
    return file.path;
  }

  Error MissingTensorFile(const ShardFile& file, const std::string& path) const {
    const auto entries = ListFolder(ParentPath(path));  // an error in any case
    if (entries.ok() && entries->empty())
      return Unsupported(
                 "the weights were left out when the set was saved "
                 "(avoid_saving_lower_precision_weights): .tensors/ is empty")
          .in(file.path)
          .hint("they are in sharded_master_weights of the optimizer's files under optim/");
    return TensorFiles::Missing(file.path, path);
  }

  const SetLocation& location_;
  const Looker& look_;
  TensorFiles files_;
  std::set<std::string> skipped_;
  std::string optimizer_entry_;
  size_t unchecked_ = 0;
  std::string first_unchecked_;
};

}  // namespace

std::string FolderAbove(const std::string& path) {
  const std::string name = BaseName(path);
  return name == "." || name == ".." ? JoinPath(path, "..") : ParentPath(path);
}

std::string_view SetStyleName(SetStyle style) {
  constexpr std::array<std::string_view, 7> kNames = {
      "v2", "v2 xser", "v2 inline xser", "v1", "v1 xser", "v0", "NeMo Megatron (NNM)"};
  return kNames[static_cast<size_t>(style)];
}

Result<std::optional<ShardFile>> ShardOfPath(const std::string& path) {
  const std::string folder = ParentPath(path);
  // v1 and NNM: the name of the folder that contains the file has the ranks.
  for (const std::string& shard : {path, folder}) {
    NXDKIT_ASSIGN(const MaybeShard found, ShardOf(ParentPath(shard), BaseName(shard)));
    if (!found) continue;
    NXDKIT_ASSIGN(const bool same, SamePath(found->first.path, path));
    if (same) return std::optional(found->first);
  }
  return std::optional<ShardFile>();
}

namespace {

Result<bool> HasShards(const std::string& folder, const Looker& look) {
  NXDKIT_ASSIGN(const ShardsFound found, ShardsIn(folder, look));
  return !found.files.empty();
}

// Unfinished outputs; and lost+found, for root alone, at the top of an ext4 file system.
bool IsNoTag(const std::string& name) { return IsPartial(name) || name == "lost+found"; }

// A link to a neighbour, such as `latest`: the tag appears under its own name, if it still exists.
Result<bool> IsOtherName(const std::string& root, const std::string& name) {
  NXDKIT_ASSIGN(std::string to, ReadLink(JoinPath(root, name)));
  while (to.ends_with('/')) to.pop_back();
  if (to.starts_with("./")) to.erase(0, 2);
  if (to.starts_with('/')) return SamePath(ParentPath(to), root);
  return !to.empty() && to.find('/') == std::string::npos && to != "." && to != "..";
}

}  // namespace

// Other folders next to the tags may be anybody's: an error in one counts only where no other is a
// set.
Result<bool> LooksLikeShardSet(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool folder, look.IsFolder(path));
  if (!folder) return false;
  for (const std::string& place : {path, JoinPath(path, "model")}) {
    NXDKIT_ASSIGN(const bool has_shards, HasShards(place, look));
    if (has_shards) return true;
  }
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(path));
  Result<bool> none = false;
  for (const std::string& name : names) {
    if (IsNoTag(name)) continue;
    Result<bool> has_shards = HasShards(JoinPath(JoinPath(path, name), "model"), look);
    if (has_shards.ok() && *has_shards) return true;
    if (!has_shards.ok() && none.ok()) none = std::move(has_shards);
  }
  return none;
}

Result<std::vector<TagFolder>> ListTags(const std::string& path, const Looker& look) {
  std::vector<TagFolder> tags;
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(path));
  for (const std::string& name : names) {
    const std::string folder = JoinPath(path, name);
    if (IsNoTag(name)) continue;
    NXDKIT_ASSIGN(const bool other_name, IsOtherName(path, name));
    if (other_name) continue;
    NXDKIT_ASSIGN(const bool is_folder, look.IsFolder(folder));
    if (!is_folder) continue;
    NXDKIT_ASSIGN(const PathInfo done, LookAt(JoinPath(folder, "done")));
    if (done.kind == PathKind::kFile) {
      constexpr int64_t kSecond = 1'000'000'000;
      tags.push_back({name, true, {done.written_ns / kSecond, done.written_ns % kSecond}});
      continue;
    }
    NXDKIT_ASSIGN(const bool has_checkpoint, look.IsFile(JoinPath(folder, "checkpoint")));
    NXDKIT_ASSIGN(const bool has_shards, HasShards(JoinPath(folder, "model"), look));
    if (has_checkpoint || has_shards) tags.push_back({name});
  }
  return tags;
}

namespace {

Error NoTag(const std::string& path, const std::string& tag, const Looker& look) {
  Error error = NotFound("no tag \"{}\"", tag).in(path);
  const Result<std::vector<TagFolder>> tags = ListTags(path, look);
  if (!tags.ok() || tags->empty()) return error;
  std::vector<std::string> names;
  for (const TagFolder& other : *tags) names.push_back(other.name);
  const std::optional<std::string> near = ClosestWord(tag, names);
  const std::string there =
      fmt::format("there {} {}", names.size() == 1 ? "is" : "are", FirstNames(names, 5));
  if (!near) return std::move(error).hint(there);
  const std::string question = fmt::format("did you mean {}?", *near);
  return std::move(error).hint(names.size() == 1 ? question : question + " " + there);
}

}  // namespace

Result<SetLocation> Locate(const std::string& path, const std::optional<std::string>& tag,
                           const Looker& look) {
  NXDKIT_ASSIGN(const PathKind kind, look.KindOf(path));
  if (kind == PathKind::kMissing) return NotFound("no such file or folder").in(path);
  if (kind != PathKind::kFolder)
    return Unsupported("an NxD shard set is a folder; this is a file").in(path);
  if (tag) {
    NXDKIT_TRY(CheckTagName(*tag));
    const std::string tag_folder = JoinPath(path, *tag);
    NXDKIT_ASSIGN(const bool is_folder, look.IsFolder(tag_folder));
    if (!is_folder) return NoTag(path, *tag, look);
    NXDKIT_ASSIGN(SetLocation named, LocateTag(tag_folder, look));
    const Result<std::vector<TagFolder>> tags =
        ListTags(path, look);  // the others are not examined
    if (tags.ok() && tags->size() > 1) named.choice = Choice{tag_folder, tags->size(), "option"};
    return named;
  }
  NXDKIT_ASSIGN(ShardsFound direct, ShardsIn(path, look));
  if (!direct.files.empty()) return LocateShards(path, std::move(direct), look);
  NXDKIT_ASSIGN(const bool is_tag, HasShards(JoinPath(path, "model"), look));
  if (is_tag) return LocateTag(path, look);
  NXDKIT_ASSIGN(const LatestTag latest, FindLatestTag(path, look));
  NXDKIT_ASSIGN(SetLocation found, LocateTag(JoinPath(path, latest.name), look));
  found.choice = latest.choice;
  if (!latest.doubt.empty())
    found.warnings.push_back(fmt::format("{}: {}; --tag names another", path, latest.doubt));
  return found;
}

Result<ShardSet> Read(SetLocation location, const Looker& look) {
  ShardSet set;
  SetReader reader(location, look);
  for (const ShardFile& file : location.files) {
    NXDKIT_ASSIGN(Shard shard, reader.ReadShard(file).in(file.path).rank(file.tp));
    set.shards.push_back(std::move(shard));
  }
  if (location.style == SetStyle::kNnm) RenameNnm(set.shards);
  set.skipped = reader.skipped();
  set.optimizer_entry = reader.optimizer_entry();
  if (const auto unchecked = reader.Unchecked()) location.warnings.push_back(*unchecked);
  set.location = std::move(location);
  return set;
}

Result<ShardSet> ReadMainFile(const std::string& path) {
  SetLocation location;
  NXDKIT_ASSIGN(const std::optional<ShardFile> shard, ShardOfPath(path));
  location.files.push_back(shard.value_or(ShardFile{.path = path}));
  return Read(std::move(location));
}

}  // namespace nxdkit::nxd
