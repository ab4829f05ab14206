#include "formats/artifact/open_file.h"

#include "formats/safetensors/safetensors.h"
#include "formats/torch/archive.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {

Result<TensorFile> OpenTensorFile(const std::string& path) {
  const PathKind kind = KindOf(path);
  if (kind == PathKind::kMissing) return NotFound("no such file").in(path);
  if (kind != PathKind::kFile) return Unsupported("not a regular file").in(path);
  // The name counts first: a damaged file is then reported as what it was meant to be.
  if (path.ends_with(".safetensors") || safetensors::LooksLikeSafetensors(path))
    return safetensors::Open(path);
  if (torch::LooksLikeArchive(path)) {
    Result<torch::Archive> archive = torch::ReadArchive(path);
    if (!archive.ok()) return std::move(archive).error();
    return torch::FlattenStateDict(*archive);
  }
  return Corrupt(
             "neither a safetensors file nor a torch archive: the first bytes are of another kind")
      .in(path);
}

}  // namespace nxdkit::ops
