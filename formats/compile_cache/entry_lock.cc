#include "formats/compile_cache/entry_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/system/look.h"
#include "lib/system/paths.h"

namespace nxdkit::neff {
namespace {

constexpr int kWaitMilliseconds = 50;
constexpr int kMostGone = 100;  // each needs another process to replace the folder in between

}  // namespace

Result<std::optional<FolderLock>> TryLock(const std::string& folder, FolderLock::Mode mode) {
  NXDKIT_ASSIGN(FolderLock lock, FolderLock::Try(folder, mode));
  if (lock.state() == FolderLock::State::kBusy || !lock.IsAt(folder))
    return std::optional<FolderLock>();
  return std::optional<FolderLock>(std::move(lock));
}

Result<FolderLock> WaitForLock(const std::string& folder, FolderLock::Mode mode,
                               const std::function<Status()>& poll) {
  for (int gone = 0; gone < kMostGone;) {
    NXDKIT_ASSIGN(FolderLock lock, FolderLock::Try(folder, mode));
    const bool busy = lock.state() == FolderLock::State::kBusy;
    if (!busy && lock.IsAt(folder)) return lock;
    if (!busy) ++gone;
    if (poll) NXDKIT_TRY(poll());
    ::poll(nullptr, 0, kWaitMilliseconds);
  }
  return Error(Errc::kIo, fmt::format("the folder was another one {} times", kMostGone)).in(folder);
}

bool IsHeld(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno != ENOENT;
  const bool held = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
  ::close(fd);
  return held;
}

bool AnyLockHeld(const std::string& folder) {
  const Result<std::vector<std::string>> names = ListFolder(folder);
  // If the folder cannot be listed, assume that one is held.
  return !names.ok() || std::ranges::any_of(*names, [&](const std::string& name) {
    return name.ends_with(".lock") && IsHeld(JoinPath(folder, name));
  });
}

}  // namespace nxdkit::neff
