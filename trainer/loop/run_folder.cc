#include "trainer/loop/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "lib/system/file.h"

namespace nxdkit::trainer {

Status CheckFolderWritable(const std::string& folder) {
  std::string there = folder;
  while (KindOf(there) == PathKind::kMissing && ParentPath(there) != there)
    there = ParentPath(there);
  if (KindOf(there) != PathKind::kFolder) return OutputError("make files", ENOTDIR).in(there);
  if (::access(there.c_str(), W_OK | X_OK) != 0) return OutputError("make files", errno).in(there);
  return OkStatus();
}

Result<FolderLock> LockRunFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return OutputError("create the folder", error.value()).in(folder);
  auto lock = FolderLock::Try(folder, FolderLock::Mode::kExclusive);
  if (!lock.ok()) return lock.error();
  if (lock->state() == FolderLock::State::kBusy)
    return Error(Errc::kIo, "another process trains in this folder").in(folder);
  return *std::move(lock);
}

}  // namespace nxdkit::trainer
