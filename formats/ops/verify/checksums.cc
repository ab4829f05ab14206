#include "formats/ops/verify/checksums.h"

#include <map>
#include <set>

#include "formats/kinds/kind.h"
#include "formats/torch/archive.h"
#include "lib/base/parallel.h"
#include "lib/system/file.h"
#include "lib/tensor/checked_storage.h"

namespace nxdkit::ops {
namespace {

Finding FromError(const Error& error) {
  return Finding("checksum", error.message()).in(error.file()).on(error.member());
}

// Whether there are archives inside its files.
bool HasInnerArchives(const Artifact& artifact) { return artifact.kind && artifact.kind->archives; }

// Reads it completely. The legacy form is always a whole file.
Status CheckArchive(const ArchiveRange& range, const torch::ReadOptions& options) {
  NXDKIT_ASSIGN(File opened, File::OpenRead(range.path));
  if (range.offset == 0 && *range.bytes == opened.bytes()) {
    NXDKIT_TRY(torch::ReadArchive(range.path, options));
    return OkStatus();
  }
  const auto file = std::make_shared<const File>(std::move(opened));
  NXDKIT_TRY(torch::ReadArchiveAt(file, range.offset, *range.bytes, options));
  return OkStatus();
}

// By file, the places of the records that were verified while the artifact was read.
std::map<std::string, std::set<uint64_t>> ProvedRecords(const Artifact& artifact) {
  std::map<std::string, std::set<uint64_t>> proved;
  for (const TensorFile& file : artifact.files)
    for (const StoredTensor& tensor : file.tensors)
      if (const CheckedStorage* record = tensor.storage->checked(); record && record->is_proved())
        proved[record->path()].insert(record->file_offset());
  return proved;
}

}  // namespace

std::vector<ArchiveRange> ArchivesWithChecksums(const Artifact& artifact) {
  std::vector<ArchiveRange> archives;
  std::set<std::string> seen;
  const auto add = [&](const std::string& path) {
    if (seen.insert(path).second) archives.push_back({path, 0, std::nullopt});
  };
  for (const TensorFile& file : artifact.files) {
    if (file.format != "torch zip") continue;  // the legacy format and safetensors have none
    add(file.path);
    // An xser set keeps each tensor in a file of its own.
    for (const StoredTensor& tensor : file.tensors)
      if (tensor.storage->is_file_range()) add(tensor.storage->path());
  }
  if (HasInnerArchives(artifact))
    for (ArchiveRange& archive : artifact.kind->archives(artifact))
      archives.push_back(std::move(archive));
  return archives;
}

void DeferChecksums(const Artifact& artifact) {
  for (const TensorFile& file : artifact.files)
    for (const StoredTensor& tensor : file.tensors)
      if (const CheckedStorage* record = tensor.storage->checked()) record->Defer();
}

Result<std::vector<Finding>> CheckChecksums(const Artifact& artifact, const RunOptions& run) {
  std::vector<ArchiveRange> archives = ArchivesWithChecksums(artifact);
  uint64_t total = 0;
  for (ArchiveRange& archive : archives) {
    if (!archive.bytes) {
      NXDKIT_ASSIGN(const File file, File::OpenRead(archive.path));
      archive.bytes = file.bytes();
    }
    total += *archive.bytes;
  }
  if (run.begin && !archives.empty()) run.begin("checking checksums", total);
  const std::map<std::string, std::set<uint64_t>> proved = ProvedRecords(artifact);
  std::vector<Status> results(archives.size());
  const auto check = [&](size_t i) -> Status {
    if (run.poll) NXDKIT_TRY(run.poll());
    const auto records = proved.find(archives[i].path);
    const torch::ReadOptions options = {
        .check_crc = true,
        .proved = records == proved.end() ? nullptr : &records->second,
        // Other contents were checked before; an object of a program's own is carried unread.
        .only_records = HasInnerArchives(artifact)};
    results[i] = CheckArchive(archives[i], options);
    if (run.on_bytes) run.on_bytes(*archives[i].bytes);
    const bool is_finding = results[i].ok() || results[i].error().code() == Errc::kCorrupt;
    return is_finding ? OkStatus() : results[i];
  };
  NXDKIT_TRY(ParallelFor(archives.size(), run.jobs, check));
  std::vector<Finding> findings;
  for (const Status& result : results)
    if (!result.ok()) findings.push_back(FromError(result.error()));
  return findings;
}

}  // namespace nxdkit::ops
