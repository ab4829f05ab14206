#include "lib/system/folder_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace nxdkit {
namespace {

// SIGIO, blocked in this thread and discarded if it came: opening a file while a lease is tried
// makes the kernel send one, and it would end the process.
class WithoutSigio {
 public:
  WithoutSigio() {
    sigemptyset(&only_);
    sigaddset(&only_, SIGIO);
    pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  WithoutSigio(const WithoutSigio&) = delete;
  WithoutSigio& operator=(const WithoutSigio&) = delete;
  ~WithoutSigio() {
    const timespec now{0, 0};
    while (sigtimedwait(&only_, nullptr, &now) == SIGIO) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t only_;
  sigset_t before_;
};

}  // namespace

bool LocksAreMissing(int failure) {
  return failure == ENOSYS || failure == EOPNOTSUPP || failure == ENOLCK || failure == EBADF ||
         failure == EINVAL;
}

Result<FolderLock> FolderLock::Try(const std::string& path, Mode mode) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", errno).in(path);
  File folder(fd, path, 0);
  while (::flock(fd, (mode == Mode::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return FolderLock(File(), State::kBusy);
    if (!LocksAreMissing(errno)) return SystemError("lock", errno).in(path);
    return FolderLock(std::move(folder), State::kUnsupported);
  }
  return FolderLock(std::move(folder), State::kHeld);
}

bool FolderLock::IsAt(const std::string& path) const {
  struct stat held, there;
  return folder_.is_open() && ::fstat(folder_.fd(), &held) == 0 &&
         ::stat(path.c_str(), &there) == 0 && held.st_dev == there.st_dev &&
         held.st_ino == there.st_ino;
}

std::string FolderLock::HeldPath() const { return fmt::format("/proc/self/fd/{}", folder_.fd()); }

// The kernel grants a write lease only while nobody else has the file open or mapped: a test that
// needs no cooperation. The lease is returned at once.
Result<InUse> AskInUse(const std::string& path) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  const WithoutSigio quiet;
  f_owner_ex owner{F_OWNER_TID, ::gettid()};  // to this thread, where it is blocked
  if (::fcntl(file.fd(), F_SETOWN_EX, &owner) != 0) return InUse::kUnknown;
  if (::fcntl(file.fd(), F_SETLEASE, F_WRLCK) == 0) {
    ::fcntl(file.fd(), F_SETLEASE, F_UNLCK);
    return InUse::kNo;
  }
  return errno == EAGAIN ? InUse::kYes : InUse::kUnknown;
}

}  // namespace nxdkit
