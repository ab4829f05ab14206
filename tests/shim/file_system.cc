// A library for LD_PRELOAD that behaves like file systems that tests cannot mount: Lustre, NFS, and
// overlay with a folder from a lower layer. It can also end the process at the n-th change of a
// name, so that every step of a protocol can be the last one.
//
//   SHIM_EXCHANGE=EINVAL   renameat2 with RENAME_EXCHANGE or RENAME_NOREPLACE fails so
//   SHIM_FLOCK=ENOSYS      flock fails so
//   SHIM_FOLDERS=EXDEV     rename of a folder that has no ".partial" in its path fails so
//   SHIM_KILL=3            SIGKILL instead of the third rename, link, symlink, unlink, mkdir, rmdir
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

int ErrnoOf(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr) return 0;
  const std::string_view name = value;
  if (name == "EINVAL") return EINVAL;
  if (name == "ENOSYS") return ENOSYS;
  if (name == "EXDEV") return EXDEV;
  std::abort();
}

template <typename Function>
Function* Next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void Step() {
  static std::atomic<int> steps = 0;
  const char* const last = std::getenv("SHIM_KILL");
  if (last != nullptr && ++steps == std::atoi(last)) kill(getpid(), SIGKILL);
}

bool IsPlainFolder(const char* path) {
  struct stat info;
  return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
         std::strstr(path, ".partial") == nullptr;
}

int Fail(int failure) {
  errno = failure;
  return -1;
}

}  // namespace

extern "C" {

int rename(const char* from, const char* to) noexcept {
  Step();
  const int failure = ErrnoOf("SHIM_FOLDERS");
  if (failure != 0 && IsPlainFolder(from)) return Fail(failure);
  return Next(&rename, "rename")(from, to);
}

int renameat2(int a, const char* from, int b, const char* to, unsigned flags) noexcept {
  Step();
  const int failure = ErrnoOf("SHIM_EXCHANGE");
  if (failure != 0 && flags != 0) return Fail(failure);
  return Next(&renameat2, "renameat2")(a, from, b, to, flags);
}

int flock(int fd, int operation) noexcept {
  const int failure = ErrnoOf("SHIM_FLOCK");
  return failure != 0 ? Fail(failure) : Next(&flock, "flock")(fd, operation);
}

int symlink(const char* target, const char* path) noexcept {
  Step();
  return Next(&symlink, "symlink")(target, path);
}

int link(const char* from, const char* to) noexcept {
  Step();
  return Next(&link, "link")(from, to);
}

int unlink(const char* path) noexcept {
  Step();
  return Next(&unlink, "unlink")(path);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  Step();
  return Next(&unlinkat, "unlinkat")(folder, path, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
  Step();
  return Next(&mkdir, "mkdir")(path, mode);
}

int rmdir(const char* path) noexcept {
  Step();
  return Next(&rmdir, "rmdir")(path);
}

}  // extern "C"
