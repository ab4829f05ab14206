#include "formats/neff/entry_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace nxdkit::neff {
namespace {

constexpr int kWaitMilliseconds = 50;

bool LocksAreMissing(int failure) {
  return failure == ENOSYS || failure == EOPNOTSUPP || failure == ENOLCK || failure == EINVAL;
}

int TryFlock(int fd, int operation) {
  int got;
  do {
    got = ::flock(fd, operation | LOCK_NB);
  } while (got != 0 && errno == EINTR);
  return got == 0 || LocksAreMissing(errno) ? 0 : errno;
}

// Whether the path still leads to what was opened.
bool IsAt(int fd, const std::string& path) {
  struct stat held, there;
  return ::fstat(fd, &held) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

}  // namespace

EntryLock& EntryLock::operator=(EntryLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

EntryLock::~EntryLock() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::optional<EntryLock>> EntryLock::Try(const std::string& folder, Mode mode) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return SystemError("open", errno).in(folder);
  EntryLock lock(fd);
  const int failure = TryFlock(fd, mode == Mode::kShared ? LOCK_SH : LOCK_EX);
  if (failure == EWOULDBLOCK) return std::optional<EntryLock>();
  if (failure != 0) return SystemError("lock", failure).in(folder);
  if (!IsAt(fd, folder)) return std::optional<EntryLock>();
  return std::optional<EntryLock>(std::move(lock));
}

Result<EntryLock> EntryLock::Wait(const std::string& folder, Mode mode,
                                  const std::function<Status()>& poll) {
  for (;;) {
    NXDKIT_ASSIGN(std::optional<EntryLock> lock, Try(folder, mode));
    if (lock) return *std::move(lock);
    if (poll) NXDKIT_TRY(poll());
    ::poll(nullptr, 0, kWaitMilliseconds);
  }
}

void EntryLock::Share() { TryFlock(fd_, LOCK_SH); }

bool IsHeld(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno != ENOENT;
  const bool held = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
  ::close(fd);
  return held;
}

}  // namespace nxdkit::neff
