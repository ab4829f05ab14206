#include "formats/ops/precompile/scratch_folder.h"

#include "formats/compile_cache/leftovers.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {

Result<ScratchFolder> ScratchFolder::Make(const std::string& parent, std::string_view name) {
  NXDKIT_TRY(MakeFolders(parent));
  NXDKIT_ASSIGN(const std::string real, RealPath(parent));
  const std::string path = JoinPath(real, neff::AsideName(name));
  NXDKIT_TRY(MakeFolders(path));
  NXDKIT_ASSIGN(FolderLock lock, FolderLock::Try(path, FolderLock::Mode::kExclusive));
  return ScratchFolder(path, std::move(lock));
}

ScratchFolder::~ScratchFolder() {
  if (!path_.empty()) (void)RemoveTree(path_).ok();
}

void SweepScratchFolders(const std::string& parent, std::string_view name) {
  const neff::TreeMoment moment = neff::MomentOf(parent);
  const Result<std::vector<std::string>> names = ListIfThere(parent);
  if (!names.ok()) return;
  for (const std::string& each : *names) {
    const std::optional<neff::Leftover> leftover = neff::ParseLeftover(each);
    if (!leftover || leftover->of != name || !neff::IsOurs(*leftover)) continue;
    const std::string path = JoinPath(parent, each);
    const Result<bool> abandoned = neff::IsAbandoned(path, *leftover, moment);
    // Another user's folder, in a shared place, is left to that user.
    if (abandoned.ok() && *abandoned) (void)RemoveTree(path).ok();
  }
}

}  // namespace nxdkit::ops
