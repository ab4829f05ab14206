#include "formats/dcp/whole_archive.h"

#include <utility>

#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::dcp {
namespace {

constexpr char kSchedulerFile[] = "scheduler.pt";
constexpr char kSchedulerPrefix[] = "lr_scheduler.";

}  // namespace

WholeArchive::WholeArchive(const torch::Archive& archive, Folder& out)
    : archive_(archive), out_(out), file_(static_cast<uint32_t>(out.files.size())) {
  out.files.push_back({archive.path, archive.format, archive.file_bytes, {}, {}});
  out.archives.push_back({archive.path, 0, archive.file_bytes});
  for (const std::string& warning : archive.warnings) AddWarning(out, warning);
}

void WholeArchive::Add(std::string key, torch::TensorIndex index) {
  StoredTensor stored = archive_.tensors.at(index.index);
  stored.name = key;
  out_.files[file_].tensors.push_back(stored);
  StoredEntry entry{std::move(key), stored.dtype, stored.shape, {}};
  const Box box = WholeBox(stored.shape);
  if (box.Volume() > 0) entry.chunks.push_back({box, file_, std::move(stored)});
  out_.tensors.push_back(std::move(entry));
}

void WholeArchive::AddAny(std::string key, const torch::PickleValue& value) {
  if (const torch::TensorIndex* index = value.tensor())
    Add(std::move(key), *index);
  else
    out_.metadata.objects.push_back({std::move(key), {}, value});
}

Status AddSchedulerFile(const std::string& path, const Looker& look, Folder& out) {
  NXDKIT_ASSIGN(const bool there, look.HasFile(path, kSchedulerFile));
  if (!there) return OkStatus();
  const std::string file = JoinPath(path, kSchedulerFile);
  const Result<torch::Archive> archive =
      torch::ReadArchive(file, {.allowed = torch::ReadOptions::Allowed::kRunState});
  if (!archive.ok() && archive.error().code() == Errc::kIo) return archive.error();
  const torch::PickleDict* dict = archive.ok() ? archive->root.dict() : nullptr;
  if (!dict || !archive->tensors.empty()) {
    AddWarning(out,
               file + " is left: " +
                   (archive.ok() ? "it is not a dict of numbers" : archive.error().ToString()));
    return OkStatus();
  }
  for (const auto& [key, value] : *dict)
    if (key.string()) out.metadata.objects.push_back({kSchedulerPrefix + *key.string(), {}, value});
  return OkStatus();
}

}  // namespace nxdkit::dcp
