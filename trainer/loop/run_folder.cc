#include "trainer/loop/run_folder.h"

#include <unistd.h>

#include <cerrno>

#include "lib/system/folders.h"
#include "lib/system/user_path.h"

namespace nxdkit::trainer {

Status CheckFolderWritable(const std::string& folder) {
  NXDKIT_TRY(RefuseUrl(folder));
  const std::string there = NearestExisting(folder);
  NXDKIT_ASSIGN(const bool is_folder, IsFolder(there));
  if (!is_folder) return OutputError("make files", ENOTDIR).in(there);
  if (::access(there.c_str(), W_OK | X_OK) != 0) return OutputError("make files", errno).in(there);
  return OkStatus();
}

Result<FolderLock> LockRunFolder(const std::string& folder) {
  NXDKIT_TRY(MakeFolders(folder));
  NXDKIT_ASSIGN(FolderLock lock, FolderLock::Try(folder, FolderLock::Mode::kExclusive));
  if (lock.state() == FolderLock::State::kBusy)
    return Error(Errc::kIo, "another process trains in this folder").in(folder);
  return lock;
}

}  // namespace nxdkit::trainer
