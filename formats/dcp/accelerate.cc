#include "formats/dcp/accelerate.h"

#include <utility>

#include "formats/torch/archive.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::dcp {
namespace {

constexpr char kModelFolder[] = "pytorch_model_fsdp_0";
constexpr char kOptimizerFolder[] = "optimizer_0";
constexpr char kTrainersScheduler[] = "scheduler.pt";
constexpr char kAcceleratesScheduler[] = "scheduler.bin";
constexpr char kSchedulerPrefix[] = "lr_scheduler.";

void MoveBelow(const std::string& folder, ItemPlace& place) {
  if (!place.file.empty()) place.file = JoinPath(folder, place.file);
}

// Adds the checkpoint in a folder below that of `to`.
void Append(const std::string& below, Folder from, Folder& to) {
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

Status AddScheduler(const std::string& path, const Looker& look, Folder& out) {
  NXDKIT_ASSIGN(const bool accelerates, look.HasFile(path, kAcceleratesScheduler));
  if (accelerates)
    AddWarning(out, "scheduler.bin is left: accelerate counts a step of every rank in it");
  NXDKIT_ASSIGN(const bool trainers, look.HasFile(path, kTrainersScheduler));
  if (!trainers) return OkStatus();
  const std::string file = JoinPath(path, kTrainersScheduler);
  const Result<torch::Archive> archive =
      torch::ReadArchive(file, {.allowed = torch::ReadOptions::Allowed::kRunState});
  if (!archive.ok() && archive.error().code() == Errc::kIo) return archive.error();
  const torch::PickleDict* dict = archive.ok() ? archive->root.dict() : nullptr;
  if (!dict || !archive->tensors.empty()) {
    AddWarning(out, file + " is left: " +
                        (archive.ok() ? "it is no dict of numbers" : archive.error().ToString()));
    return OkStatus();
  }
  for (const auto& [key, value] : *dict)
    if (key.string()) out.metadata.objects.push_back({kSchedulerPrefix + *key.string(), {}, value});
  return OkStatus();
}

}  // namespace

Result<bool> IsAccelerateFolder(const std::string& path, const Looker& look) {
  return look.HasFile(JoinPath(path, kModelFolder), kMetadataFile);
}

Result<Folder> OpenAccelerate(const std::string& path, const Looker& look) {
  Folder out;
  out.path = path;
  NXDKIT_ASSIGN(Folder model, Open(JoinPath(path, kModelFolder), look));
  Append(kModelFolder, std::move(model), out);
  const std::string optimizer = JoinPath(path, kOptimizerFolder);
  NXDKIT_ASSIGN(const bool there, look.IsFolder(optimizer));
  if (there) {
    Result<Folder> state = Open(optimizer, look);
    if (!state.ok() && state.error().code() == Errc::kIo) return std::move(state).error();
    if (state.ok())
      Append(kOptimizerFolder, *std::move(state), out);
    else
      AddWarning(out, "the optimizer's state is left out: " + state.error().ToString());
  }
  NXDKIT_ASSIGN(const bool second, look.IsFolder(JoinPath(path, "pytorch_model_fsdp_1")));
  if (second) AddWarning(out, "pytorch_model_fsdp_1, of a second model, is not read");
  NXDKIT_TRY(AddScheduler(path, look, out));
  return out;
}

}  // namespace nxdkit::dcp
