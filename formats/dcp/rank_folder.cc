#include "formats/dcp/rank_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "formats/dcp/folder_files.h"
#include "formats/dcp/rank_metadata.h"
#include "formats/dcp/shard_entries.h"
#include "formats/dtensor/rank_values.h"
#include "formats/safetensors/safetensors.h"
#include "formats/torch/archive.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"

namespace nxdkit::dcp {

using dtensor::RankObject;
using dtensor::RankTensor;
using dtensor::RankValues;

namespace {

constexpr std::string_view kTemporaryPrefix = "tmp_";
constexpr std::string_view kRankFileEnd = ".pt";

struct NamedFile {
  std::string item;
  int64_t rank = 0;
};

// "model_3.pt"; nullopt for other names.
std::optional<NamedFile> ParseFileName(std::string_view name) {
  if (!name.ends_with(kRankFileEnd)) return std::nullopt;
  name.remove_suffix(kRankFileEnd.size());
  const size_t cut = name.rfind('_');
  if (cut == std::string_view::npos || cut == 0) return std::nullopt;
  const auto rank = ParseNumber<int64_t>(name.substr(cut + 1));
  if (!rank || *rank < 0 || std::to_string(*rank) != name.substr(cut + 1)) return std::nullopt;
  return NamedFile{std::string(name.substr(0, cut)), *rank};
}

// One rank's saved part of an item.
struct RankFile {
  std::string item;
  int64_t rank = 0;
  std::string name;
  bool safetensors = false;
  const RankedItem* metadata = nullptr;  // null: the item is not in metadata.pkl
  int64_t ranks = 0;                     // ranks that have a file of the item
};

class RankOpener {
 public:
  RankOpener(const std::string& path, const Looker& look) : look_(look) {
    out_.path = path;
    out_.form = FolderForm::kRankFiles;
  }

  Result<Folder> Run() {
    NXDKIT_ASSIGN(const std::string real, RealPath(out_.path));
    if (BaseName(real).starts_with(kTemporaryPrefix))
      return Corrupt(
                 "the save was not completed: torch_checkpointing writes into tmp_NAME, which it "
                 "renames when all ranks are done")
          .in(out_.path);
    NXDKIT_TRY(ReadMetadata());
    NXDKIT_TRY(ListFiles());
    NXDKIT_ASSIGN(files_, FolderFiles::Open(out_.path, names_, SaidBy()));
    for (const RankFile& file : wanted_)
      NXDKIT_TRY(ReadFile(file).in(JoinPath(out_.path, file.name)));
    for (const StoredEntry& entry : out_.tensors)
      NXDKIT_TRY(CheckCover(entry).in(out_.path).on(entry.key));
    out_.files = std::move(files_.files);
    return std::move(out_);
  }

 private:
  std::string SaidBy() const { return JoinPath(out_.path, kRankMetadataFile); }

  Status ReadMetadata() {
    NXDKIT_ASSIGN(const bool has_metadata, look_.IsThere(SaidBy()));
    if (!has_metadata) return OkStatus();
    NXDKIT_ASSIGN(const std::string text,
                  ReadFolderFile(out_.path, kRankMetadataFile, kMaxMetadataBytes));
    return ParseRankMetadata(text).in(SaidBy()).To(metadata_);
  }

  // Lists the files of metadata.pkl's items, for ranks that have a tensor of one, and all other
  // files whose names have this form.
  Status ListFiles() {
    NXDKIT_ASSIGN(const std::vector<std::string> names, look_.ListFolder(out_.path));
    there_.insert(names.begin(), names.end());
    std::set<std::string> known;
    if (metadata_)
      for (const RankedItem& item : metadata_->items) {
        known.insert(item.name);
        NXDKIT_TRY(ListItem(item).in(SaidBy()).on(item.name));
      }
    std::map<std::string, std::set<int64_t>> others;  // ranks, by item
    for (const std::string& name : names) {
      const auto file = ParseFileName(name);
      if (!file) continue;
      if (metadata_ && file->rank >= metadata_->world_size)
        return Corrupt(
                   "the file is of rank {}, metadata.pkl is of {} ranks: it belongs to another "
                   "save",
                   file->rank, metadata_->world_size)
            .in(JoinPath(out_.path, name));
      if (!known.contains(file->item)) others[file->item].insert(file->rank);
    }
    for (const auto& [item, ranks] : others) NXDKIT_TRY(ListOther(item, ranks).in(out_.path));
    return OkStatus();
  }

  Status ListItem(const RankedItem& item) {
    NXDKIT_TRY(CheckFileName(RankFileName(item.name, 0), "the item"));
    std::set<int64_t> ranks;
    std::set<const void*> seen;  // most tensors share one list
    for (const RankedTensor& tensor : item.tensors)
      for (const ShardGroup& group : tensor.groups)
        if (seen.insert(group.ranks.get()).second)
          ranks.insert(group.ranks->begin(), group.ranks->end());
    for (const int64_t rank : ranks) {
      const auto file = item.files.find(rank);
      const bool usual = file == item.files.end();
      NXDKIT_TRY(
          Want({item.name, rank, usual ? RankFileName(item.name, rank) : file->second.name,
                !usual && file->second.safetensors, &item, static_cast<int64_t>(ranks.size())}));
    }
    return OkStatus();
  }

  // Notes a file, which must exist: many items may share one list of ranks, so a small metadata.pkl
  // could name any number of files.
  Status Want(RankFile file) {
    const bool below = file.name.find('/') != std::string::npos;
    const std::string path = JoinPath(out_.path, file.name);
    NXDKIT_ASSIGN(const bool there,
                  below ? IsThere(path) : Result<bool>(there_.contains(file.name)));
    if (!there) return Corrupt("the file is missing, but metadata.pkl names it").in(path);
    if (!names_.insert(file.name).second)
      return Corrupt("rank {} and another one, or another item, have the file {}", file.rank,
                     EscapeControl(file.name));
    wanted_.push_back(std::move(file));
    return OkStatus();
  }

  Status ListOther(const std::string& item, const std::set<int64_t>& ranks) {
    const auto count = static_cast<int64_t>(ranks.size());
    for (int64_t rank = 0; rank < count; ++rank)
      if (!ranks.contains(rank))
        return Corrupt("there is no {}, and there is {}", RankFileName(item, rank),
                       RankFileName(item, *ranks.rbegin()));
    for (const int64_t rank : ranks)
      NXDKIT_TRY(Want({item, rank, RankFileName(item, rank), false, nullptr, count}));
    return OkStatus();
  }

  Status ReadFile(const RankFile& file) {
    const uint32_t number = files_.Number(file.name);
    NXDKIT_ASSIGN(RankValues values, file.safetensors ? ReadSafetensors(file) : ReadArchive(file));
    NXDKIT_TRY(file.metadata ? BindKnown(file, number, values) : BindOwn(file, number, values));
    for (const RankObject& object : values.objects)
      NXDKIT_TRY(AddObject(file, object).on(KeyOf(file, object.path)));
    for (const ValuePath& path : values.left_out)
      AddWarning(out_, fmt::format("{}: {} is neither a tensor nor plain data and is left out",
                                   files_.files[number].path, EscapeControl(KeyOf(file, path))));
    return OkStatus();
  }

  Result<RankValues> ReadArchive(const RankFile& file) {
    const uint32_t number = files_.Number(file.name);
    NXDKIT_ASSIGN(const std::shared_ptr<const File> opened, files_.Get(number));
    NXDKIT_ASSIGN(const torch::Archive archive,
                  torch::ReadArchiveAt(opened, 0, opened->bytes(),
                                       {.allowed = torch::ReadOptions::Allowed::kDistributed}));
    out_.archives.push_back({opened->path(), 0, opened->bytes()});
    for (const std::string& warning : archive.warnings)
      AddWarning(out_, fmt::format("{}: {}", opened->path(), warning));
    return dtensor::ValuesOf(archive);
  }

  Result<RankValues> ReadSafetensors(const RankFile& file) const {
    NXDKIT_ASSIGN(TensorFile opened, safetensors::Open(JoinPath(out_.path, file.name)));
    RankValues values;
    for (StoredTensor& tensor : opened.tensors) {
      ValuePath path{{tensor.name}};  // its dots stay, since this is the whole path
      values.tensors.push_back({std::move(path), std::move(tensor), std::nullopt});
    }
    return values;
  }

  static std::string KeyOf(const RankFile& file, const ValuePath& path) {
    const std::string text = path.Text();
    return text.empty() ? file.item : file.item + "." + text;
  }

  // Binds as metadata.pkl says. A tensor that only the file or only metadata.pkl has is an error.
  Status BindKnown(const RankFile& file, uint32_t number, RankValues& values) {
    std::unordered_map<std::string, RankTensor*> found;
    for (RankTensor& tensor : values.tensors)
      found.emplace(file.safetensors ? tensor.path.Text() : tensor.path.Unique(), &tensor);
    for (const RankedTensor& tensor : file.metadata->tensors) {
      const std::string key = KeyOf(file, tensor.path);
      NXDKIT_ASSIGN(const ShardGroup* group, GroupOf(tensor, file.rank).on(key));
      if (!group) continue;
      const auto value = found.find(file.safetensors ? tensor.path.Text() : tensor.path.Unique());
      if (value == found.end())
        return Corrupt("the file does not have the tensor, but metadata.pkl says that it does")
            .on(key);
      NXDKIT_ASSIGN(LocalShard shard, group->Of(file.rank).on(key));
      NXDKIT_TRY(CheckOwnPlace(*value->second, shard).on(key));
      if (value->second->stored.dtype != group->dtype)
        return Corrupt("the file has elements of {}, metadata.pkl says {}",
                       Name(value->second->stored.dtype), Name(group->dtype))
            .on(key);
      NXDKIT_TRY(
          entries_.Add({number, file.rank}, key, group->shape, value->second->stored, shard));
      found.erase(value);
    }
    if (found.empty()) return OkStatus();
    const auto first = std::ranges::min_element(
        found, {}, [](const auto& value) -> const std::string& { return value.first; });
    return Corrupt("metadata.pkl does not know the tensor").on(KeyOf(file, first->second->path));
  }

  // The group of the rank; nullptr: the rank has no part of the tensor.
  static Result<const ShardGroup*> GroupOf(const RankedTensor& tensor, int64_t rank) {
    const ShardGroup* found = nullptr;
    for (const ShardGroup& group : tensor.groups) {
      if (!std::ranges::binary_search(*group.ranks, rank)) continue;
      if (found)
        return Corrupt("metadata.pkl has two records of rank {}'s part of the tensor", rank);
      found = &group;
    }
    return found;
  }

  static Status CheckOwnPlace(const RankTensor& tensor, const LocalShard& shard) {
    if (!tensor.place) return OkStatus();
    if (tensor.place->shard.parts == shard.parts) return OkStatus();
    return Corrupt("the distributed tensor records another place than metadata.pkl");
  }

  // Without metadata.pkl, distributed tensors record their placement, and a tensor of the only rank
  // is whole. Any other could be a part or a copy; a scalar has no parts.
  Status BindOwn(const RankFile& file, uint32_t number, RankValues& values) {
    for (RankTensor& tensor : values.tensors) {
      const std::string key = KeyOf(file, tensor.path);
      const bool whole = !tensor.place && (file.ranks == 1 || tensor.stored.shape.empty());
      if (!tensor.place && !whole)
        return Unsupported(
                   "a plain tensor of one of {} ranks: without metadata.pkl it could be a part or "
                   "a copy",
                   file.ranks)
            .on(key)
            .hint("save with a resharder: torch_checkpointing then writes metadata.pkl");
      LocalShard shard{tensor.stored.shape, {}};
      const Box box = WholeBox(tensor.stored.shape);
      if (whole && box.Volume() > 0) shard.parts.push_back({box, Shape(box.lo.size(), 0)});
      if (tensor.place) shard = tensor.place->shard;
      const Shape shape = tensor.place ? tensor.place->shape : tensor.stored.shape;
      NXDKIT_TRY(entries_.Add({number, file.rank}, key, shape, tensor.stored, shard));
    }
    return OkStatus();
  }

  Status AddObject(const RankFile& file, const RankObject& object) {
    torch::PickleList path = {{file.item}};
    for (const auto& part : object.path.parts)
      std::visit([&](const auto& value) { path.push_back({value}); }, part);
    return entries_.AddObject(KeyOf(file, object.path), object.value,
                              torch::PickleValue::MakeTuple(std::move(path)));
  }

  Looker look_;
  Folder out_;
  std::optional<RankMetadata> metadata_;
  std::set<std::string> there_;  // names in the folder
  std::vector<RankFile> wanted_;
  std::set<std::string> names_;  // of these
  FolderFiles files_;
  ShardEntries entries_{out_, files_};
};

}  // namespace

Result<bool> HasRankFiles(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(path));
  return std::ranges::any_of(names, [](const std::string& name) {
    const auto file = ParseFileName(name);
    return file && file->rank == 0;
  });
}

Result<Folder> OpenRankFolder(const std::string& path, const Looker& look) {
  return RankOpener(path, look).Run();
}

}  // namespace nxdkit::dcp
