#include "formats/kinds/open_file.h"

#include <fmt/format.h>

#include "formats/kinds/stranger.h"
#include "formats/nxd/shard_set.h"
#include "formats/safetensors/safetensors.h"
#include "formats/torch/archive.h"
#include "lib/base/errors.h"
#include "lib/system/broken_download.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {

namespace {

void AddWarnings(const std::string& path, const torch::Archive& archive,
                 const std::vector<std::string>& skipped, std::vector<std::string>* warnings) {
  if (!warnings) return;
  *warnings = archive.warnings;
  for (const std::string& name : skipped)
    warnings->push_back(fmt::format("{}: {} is not a tensor and is left out", path, name));
}

}  // namespace

Result<TensorFile> OpenStateDict(const std::string& path, std::vector<std::string>* warnings) {
  NXDKIT_ASSIGN(const torch::Archive archive, torch::ReadArchive(path));
  // The tensors of one rank's file alone would be a part of a model taken for the whole.
  NXDKIT_ASSIGN(const std::optional<nxd::ShardFile> shard, nxd::ShardOfPath(path));
  if (torch::RefersToFiles(archive) && !shard) {
    NXDKIT_ASSIGN(nxd::ShardSet set, nxd::ReadMainFile(path));
    AddWarnings(path, archive, set.skipped, warnings);
    return std::move(set.shards.front().tensors);
  }
  std::vector<std::string> skipped;
  std::string from;
  NXDKIT_ASSIGN(TensorFile file, torch::FlattenStateDict(archive, &skipped, &from));
  AddWarnings(path, archive, skipped, warnings);
  if (warnings && !from.empty())
    warnings->push_back(fmt::format("{}: the weights are those under \"{}\"", path, from));
  return file;
}

Result<TensorFile> OpenTensorFile(const std::string& path) {
  NXDKIT_ASSIGN(const PathKind kind, KindOf(path));
  if (kind == PathKind::kMissing) return NotFound("no such file").in(path);
  if (kind != PathKind::kFile) return Unsupported("not a regular file").in(path);
  // The name counts first: a damaged file is then reported as what it was meant to be.
  if (path.ends_with(".safetensors")) return OrBrokenDownload(safetensors::Open(path), path);
  NXDKIT_ASSIGN(const bool is_safetensors, safetensors::LooksLikeSafetensors(path));
  if (is_safetensors) return safetensors::Open(path);
  NXDKIT_ASSIGN(const bool is_archive, torch::LooksLikeArchive(path));
  if (is_archive) return OpenStateDict(path);
  if (std::optional<Error> stranger = KnownStranger(path)) return *std::move(stranger);
  return Corrupt("neither a safetensors file nor a torch archive, by the first bytes").in(path);
}

}  // namespace nxdkit::kinds
