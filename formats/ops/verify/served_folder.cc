#include "formats/ops/verify/served_folder.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/hf/hub_cache.h"
#include "formats/hf/index.h"
#include "formats/kinds/open_file.h"
#include "lib/base/choice.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

constexpr std::string_view kExtension = ".safetensors";
constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr size_t kNamed = 3;  // tensors of a file, in a message

// "shard-00001-model-00001-of-00004.safetensors": one rank's part of each tensor, as transformers'
// distributed save writes it.
bool IsDistributed(std::string_view name) {
  constexpr std::string_view kShape = "shard-NNNNN-model-NNNNN-of-NNNNN.safetensors";
  if (name.size() != kShape.size()) return false;
  for (size_t i = 0; i < name.size(); ++i)
    if (kShape[i] == 'N' ? name[i] < '0' || name[i] > '9' : name[i] != kShape[i]) return false;
  return true;
}

class FolderReader {
 public:
  explicit FolderReader(ServedFolder& out) : out_(out), artifact_(out.artifact) {}

  Status Run() {
    NXDKIT_ASSIGN(std::vector<std::string> names, artifact_.look.ListFolder(artifact_.path));
    std::erase_if(names, [](const std::string& name) { return !name.ends_with(kExtension); });
    std::ranges::sort(names);
    NXDKIT_ASSIGN(const bool indexed, artifact_.look.HasFile(artifact_.path, kIndexName));
    if (names.empty() && !indexed)
      return NotFound("no *.safetensors: the engine's loader reads nothing else")
          .in(artifact_.path)
          .hint("nxd-convert --to hf writes some");
    if (indexed) return ReadIndexed(names);
    for (const std::string& name : names) NXDKIT_TRY(Read(name));
    return Gather();
  }

 private:
  // Files that the index does not list are stale; a listed file that is missing has no tensors.
  Status ReadIndexed(const std::vector<std::string>& names) {
    const std::string path = JoinPath(artifact_.path, kIndexName);
    NXDKIT_ASSIGN(const hf::Index index, hf::ReadIndex(path, kExtension));
    for (const std::string& name : index.files) {
      if (std::ranges::binary_search(names, name))
        NXDKIT_TRY(Read(name));
      else
        Add(Finding("missing", "the index names this file, and it is not there")
                .in(JoinPath(artifact_.path, name)));
    }
    NXDKIT_TRY(Gather());
    for (const std::string& name : names)
      if (!std::ranges::binary_search(index.files, name)) AddStale(name);
    return OkStatus();
  }

  Status Read(const std::string& name) {
    const std::string path = JoinPath(artifact_.path, name);
    NXDKIT_ASSIGN(TensorFile file, kinds::OpenTensorFile(path));
    if (IsDistributed(name))
      Add(Finding(
              "sharded",
              "a part of a distributed save: the loader takes parts of tensors for whole tensors")
              .in(path));
    artifact_.files.push_back(std::move(file));
    return OkStatus();
  }

  // The loader keeps the last of two tensors with the same name.
  Status Gather() {
    for (const TensorFile& file : artifact_.files)
      for (const StoredTensor& tensor : file.tensors) {
        const auto [it, added] = out_.tensors.emplace(tensor.name, &tensor);
        if (!added)
          Add(Finding("twice", fmt::format("the tensor is in {} too, and the file read last wins",
                                           it->second->storage->path()))
                  .in(file.path)
                  .on(tensor.name));
      }
    return OkStatus();
  }

  void AddStale(const std::string& name) {
    const std::string path = JoinPath(artifact_.path, name);
    const Result<TensorFile> file = kinds::OpenTensorFile(path);
    if (!file.ok())
      return Add(Finding("stale", fmt::format("not in the index, and unreadable for loaders that "
                                              "read every *.safetensors: {}",
                                              file.error().message()))
                     .in(path));
    std::vector<std::string> replaced;
    for (const StoredTensor& tensor : file->tensors)
      if (out_.tensors.contains(tensor.name)) replaced.push_back(tensor.name);
    Finding finding("stale",
                    fmt::format("not in the index; a loader that reads every *.safetensors "
                                "loads {} from it{}",
                                Counted(file->tensors.size(), "tensor"), ReplacedText(replaced)));
    finding.count = static_cast<int64_t>(replaced.size());
    Add(std::move(finding).in(path));
  }

  static std::string ReplacedText(const std::vector<std::string>& names) {
    if (names.empty()) return "";
    return fmt::format(", {} of them instead of the index's: {}", names.size(),
                       FirstNames(names, kNamed));
  }

  void Add(Finding finding) { out_.findings.push_back(std::move(finding)); }

  ServedFolder& out_;
  Artifact& artifact_;
};

Result<std::string> FolderOf(const std::string& path) {
  if (!hf::IsHubName(path)) return hf::SnapshotInside(path);
  return hf::FindInHubCache(hf::HubKind::kModel, path);
}

}  // namespace

Result<ServedFolder> OpenServedFolder(const std::string& path, const InputHints& hints) {
  ServedFolder out;
  NXDKIT_ASSIGN(out.artifact.path, FolderOf(path));
  NXDKIT_ASSIGN(const PathKind kind, out.artifact.look.KindOf(out.artifact.path));
  if (kind == PathKind::kFile)
    return BadUsage("a file; an engine loads a folder, with its config.json").in(path);
  if (kind != PathKind::kFolder) return NotFound("no such folder").in(path);
  out.artifact.folder = out.artifact.path;
  NXDKIT_TRY(LoadConfig(out.artifact, hints, {out.artifact.path}));
  if (!out.artifact.config)
    return NotFound("no config.json: the engine takes sizes and family from it").in(path);
  NXDKIT_TRY(FolderReader(out).Run());
  return out;
}

}  // namespace nxdkit::ops
