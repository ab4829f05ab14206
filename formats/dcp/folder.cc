#include "formats/dcp/folder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "formats/dcp/encoder.h"
#include "formats/dcp/item_folder.h"
#include "formats/dcp/rank_folder.h"
#include "formats/dcp/rank_metadata.h"
#include "formats/dcp/safetensors_folder.h"
#include "formats/torch/archive.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::dcp {
namespace {

bool HasFile(const std::string& folder, const char* name) {
  return KindOf(JoinPath(folder, name)) == PathKind::kFile;
}

// By the file that its reader in torch would look for; nullopt when there is none of them.
std::optional<FolderForm> FormOf(const std::string& path) {
  if (HasFile(path, kMetadataFile)) return FolderForm::kCheckpoint;
  const auto names = ListFolder(path);
  if (!names.ok()) return std::nullopt;
  if (std::ranges::any_of(*names,
                          [](const auto& name) { return RankOfMetadata(name).has_value(); }))
    return FolderForm::kRankLocal;
  if (HasFile(path, kRankMetadataFile)) return FolderForm::kRankFiles;
  if (std::ranges::any_of(*names, [](const auto& name) { return name.ends_with(".distcp"); }))
    return FolderForm::kCheckpoint;
  if (HasShards(path, *names)) return FolderForm::kSafetensors;
  return std::nullopt;
}

Error Unfinished(const std::string& path) {
  return Corrupt("there is no .metadata: the save did not come to its end")
      .in(path)
      .hint("torch writes it last; take an earlier checkpoint");
}

}  // namespace

bool LooksLikeFolder(const std::string& path) {
  return KindOf(path) == PathKind::kFolder && FormOf(path).has_value();
}

Result<Folder> Open(const std::string& path) {
  std::optional<FolderForm> form = FormOf(path);
  if (!form && HasRankFiles(path)) form = FolderForm::kRankFiles;
  switch (form.value_or(FolderForm::kCheckpoint)) {
    case FolderForm::kRankLocal:
      return OpenRankLocal(path);
    case FolderForm::kRankFiles:
      return OpenRankFolder(path);
    case FolderForm::kSafetensors:
      return OpenShards(path);
    case FolderForm::kCheckpoint:
      break;
  }
  if (KindOf(JoinPath(path, kMetadataFile)) == PathKind::kMissing) return Unfinished(path);
  return OpenCheckpoint(path);
}

Result<std::string> ReadObject(const Folder& folder, const ObjectEntry& entry) {
  if (entry.value) return EncodeObject(*entry.value).in(folder.path).on(entry.key);
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
