#include "trainer/loop/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "lib/file.h"

namespace nxdkit::trainer {
namespace {

// Empty. It is locked in the place of the run's folder: who replaces an output in that one, this
// process too, takes a turn with its lock.
constexpr char kLockFolder[] = ".lock";

}  // namespace

Status CheckFolderWritable(const std::string& folder) {
  std::string there = folder;
  while (KindOf(there) == PathKind::kMissing && ParentPath(there) != there)
    there = ParentPath(there);
  if (KindOf(there) != PathKind::kFolder) return OutputError("make files", ENOTDIR).in(there);
  if (::access(there.c_str(), W_OK | X_OK) != 0) return OutputError("make files", errno).in(there);
  return OkStatus();
}

Result<FolderLock> LockRunFolder(const std::string& folder) {
  const std::string place = JoinPath(folder, kLockFolder);
  std::error_code error;
  std::filesystem::create_directories(place, error);
  if (error) return OutputError("create the folder", error.value()).in(place);
  auto lock = FolderLock::Try(place, FolderLock::Mode::kExclusive);
  if (!lock.ok()) return lock.error();
  if (lock->state() == FolderLock::State::kBusy)
    return Error(Errc::kIo, "another process trains in this folder").in(folder);
  return *std::move(lock);
}

}  // namespace nxdkit::trainer
