#include "formats/dcp/folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "formats/dcp/item_folder.h"
#include "formats/dcp/rank_folder.h"
#include "formats/dcp/rank_metadata.h"
#include "formats/dcp/safetensors_folder.h"
#include "formats/torch/archive.h"
#include "formats/torch/encoder.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"

namespace nxdkit::dcp {
namespace {

constexpr size_t kMaxWarnings = 20;

using MaybeForm = std::optional<FolderForm>;

// The form, by the file that its reader in torch would look for; nullopt when none of them exists.
Result<MaybeForm> FormOf(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool has_metadata, look.HasFile(path, kMetadataFile));
  if (has_metadata) return MaybeForm(FolderForm::kCheckpoint);
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(path));
  if (std::ranges::any_of(names, [](const auto& name) { return RankOfMetadata(name).has_value(); }))
    return MaybeForm(FolderForm::kRankLocal);
  NXDKIT_ASSIGN(const bool has_rank_metadata, look.HasFile(path, kRankMetadataFile));
  if (has_rank_metadata) return MaybeForm(FolderForm::kRankFiles);
  if (std::ranges::any_of(names, [](const auto& name) { return name.ends_with(".distcp"); }))
    return MaybeForm(FolderForm::kCheckpoint);
  NXDKIT_ASSIGN(const bool has_shards, HasShards(path, names));
  return has_shards ? MaybeForm(FolderForm::kSafetensors) : MaybeForm();
}

Error Unfinished(const std::string& path) {
  return Corrupt("there is no .metadata: the save was not completed")
      .in(path)
      .hint("torch writes it last; take an earlier checkpoint");
}

Result<Folder> OpenAs(FolderForm form, const std::string& path, const Looker& look) {
  if (form == FolderForm::kRankLocal) return OpenRankLocal(path, look);
  if (form == FolderForm::kRankFiles) return OpenRankFolder(path, look);
  if (form == FolderForm::kSafetensors) return OpenShards(path, look);
  NXDKIT_ASSIGN(const bool has_metadata, look.IsThere(JoinPath(path, kMetadataFile)));
  if (!has_metadata) return Unfinished(path);
  return OpenCheckpoint(path);
}

// The chunks of a number are copies: a reader takes any one of them.
Status CheckScalar(const StoredEntry& entry) {
  std::string first;
  for (const StoredChunk& chunk : entry.chunks) {
    std::string bytes(static_cast<size_t>(ElementBytes(entry.dtype)), '\0');
    NXDKIT_TRY(chunk.stored.storage->ReadAt(chunk.stored.offset,
                                            std::as_writable_bytes(std::span(bytes))));
    if (first.empty()) first = bytes;
    if (bytes != first)
      return Corrupt("the number differs from that in {}",
                     BaseName(entry.chunks[0].stored.storage->path()))
          .in(chunk.stored.storage->path());
  }
  return OkStatus();
}

void MoveBelow(const std::string& folder, ItemPlace& place) {
  if (!place.file.empty()) place.file = JoinPath(folder, place.file);
}

}  // namespace

std::vector<StoredChunk> ChunksOfRange(const Shape& shape, int64_t first, int64_t end,
                                       StoredTensor flat, uint32_t file) {
  std::vector<StoredChunk> out;
  for (Box& box : RangeBoxes(shape, first, end)) {
    flat.shape = box.extent;
    flat.strides = RowMajorStrides(flat.shape);
    const auto elements = static_cast<uint64_t>(box.Volume());
    out.push_back({std::move(box), file, flat});
    flat.offset += elements * static_cast<uint64_t>(ElementBytes(flat.dtype));
  }
  return out;
}

void AppendFolder(const std::string& below, Folder from, Folder& to) {
  const auto first = static_cast<uint32_t>(to.files.size());
  for (StoredEntry& entry : from.tensors) {
    for (StoredChunk& chunk : entry.chunks) chunk.file += first;
    to.tensors.push_back(std::move(entry));
  }
  for (TensorEntry& entry : from.metadata.tensors) {
    for (Chunk& chunk : entry.chunks) MoveBelow(below, chunk.place);
    to.metadata.tensors.push_back(std::move(entry));
  }
  for (ObjectEntry& object : from.metadata.objects) {
    MoveBelow(below, object.place);
    to.metadata.objects.push_back(std::move(object));
  }
  to.metadata.paths.merge(from.metadata.paths);
  std::move(from.files.begin(), from.files.end(), std::back_inserter(to.files));
  std::move(from.archives.begin(), from.archives.end(), std::back_inserter(to.archives));
  for (std::string& warning : from.warnings) AddWarning(to, std::move(warning));
}

Result<bool> LooksLikeFolder(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool folder, look.IsFolder(path));
  if (!folder) return false;
  NXDKIT_ASSIGN(const MaybeForm form, FormOf(path, look));
  return form.has_value();
}

Status CheckScalars(const Folder& folder) {
  for (const StoredEntry& entry : folder.tensors)
    if (entry.shape.empty() && entry.chunks.size() > 1)
      NXDKIT_TRY(CheckScalar(entry).on(entry.key));
  return OkStatus();
}

const std::string& StoredKey(const Folder& folder, const std::string& key) {
  const auto stored = folder.stored_keys.find(key);
  return stored == folder.stored_keys.end() ? key : stored->second;
}

void AddWarning(Folder& folder, std::string warning) {
  if (folder.warnings.size() < kMaxWarnings) folder.warnings.push_back(std::move(warning));
}

void WarnOfDifference(Folder& folder, const std::string& key) {
  AddWarning(folder,
             fmt::format("{}: {}: the ranks have different values; the lowest rank's is taken",
                         folder.path, EscapeControl(key)));
}

Result<Folder> Open(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(MaybeForm form, FormOf(path, look));
  if (!form) {
    NXDKIT_ASSIGN(const bool has_rank_files, HasRankFiles(path, look));
    if (has_rank_files) form = FolderForm::kRankFiles;
  }
  NXDKIT_ASSIGN(Folder folder, OpenAs(form.value_or(FolderForm::kCheckpoint), path, look));
  NXDKIT_TRY(CheckScalars(folder));
  return folder;
}

Result<std::string> ReadObject(const Folder& folder, const ObjectEntry& entry) {
  if (entry.value) return torch::EncodeObject(*entry.value).in(folder.path).on(entry.key);
  return ReadItem(folder, entry);
}

Result<torch::PickleValue> ReadObjectValue(const Folder& folder, const ObjectEntry& entry) {
  if (entry.value) return *entry.value;
  const std::string path = JoinPath(folder.path, entry.place.file);
  NXDKIT_ASSIGN(torch::Archive archive, ReadItemArchive(folder, entry).on(entry.key));
  if (!archive.tensors.empty())
    return Unsupported("the object holds tensors").in(path).on(entry.key);
  return std::move(archive.root);
}

}  // namespace nxdkit::dcp
