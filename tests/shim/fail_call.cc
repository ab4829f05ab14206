// A library for LD_PRELOAD that makes one system call fail, the N-th of those on anything below a
// folder: by a path, or by a descriptor of a file there. Each call counts once, so that with one
// thread the N-th is the same in every run.
//
//   FAIL_UNDER=/tmp/x   the folder, an absolute path
//   FAIL_CALL=17        which one; without it none fails, and all are listed
//   FAIL_WITH=5         errno
//   FAIL_LOG=/tmp/log   gets a line "NAME PATH" for the call that failed, or for every call
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

namespace {

// Calls the original past our own functions, which would count.
std::string PathOf(int fd) {
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const long bytes =
      syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), static_cast<char*>(path), sizeof path);
  return bytes < 0 ? "" : std::string(path, static_cast<size_t>(bytes));
}

void Log(const char* name, const std::string& path) {
  const char* const log = getenv("FAIL_LOG");
  if (log == nullptr) return;
  const std::string line = std::string(name) + " " + path + "\n";
  const long fd =
      syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  (void)!syscall(SYS_write, fd, line.data(), line.size());
  syscall(SYS_close, fd);
}

bool Fails(const char* name, const std::string& path) {
  static const char* const under = getenv("FAIL_UNDER");
  static const char* const wanted = getenv("FAIL_CALL");
  static std::atomic<int> calls = 0;
  if (under == nullptr || path.compare(0, std::strlen(under), under) != 0) return false;
  const bool fails = wanted != nullptr && ++calls == std::atoi(wanted);
  const int before = errno;
  if (wanted == nullptr || fails) Log(name, path);
  errno = fails ? std::atoi(getenv("FAIL_WITH")) : before;
  return fails;
}
bool Fails(const char* name, int fd) { return Fails(name, PathOf(fd)); }
bool Fails(const char* name, int folder, const char* path) {
  if (path[0] == '/' || folder == AT_FDCWD) return Fails(name, std::string(path));
  return Fails(name, PathOf(folder) + "/" + path);
}

template <typename Function>
Function* Next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

// The parameters in brackets, and the path or descriptor by which the call is counted.
#define FAIL_CALL(result, bad, name, place, parameters, arguments) \
  result name parameters noexcept {                                \
    if (Fails(#name, place)) return bad;                           \
    return Next(&name, #name) arguments;                           \
  }

#define PLACE_AT folder, path

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return Fails("open", std::string(path)) ? -1 : Next(&open, "open")(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return Fails("openat", folder, path) ? -1 : Next(&openat, "openat")(folder, path, flags, mode);
}
// The descriptor is still closed, as by Linux.
int close(int fd) {
  const bool fails = Fails("close", fd);
  const int failure = errno;
  const int closed = Next(&close, "close")(fd);
  if (fails) errno = failure;
  return fails ? -1 : closed;
}

int stat(const char* path, struct stat* to) noexcept {
  return Fails("stat", std::string(path)) ? -1 : Next(&stat, "stat")(path, to);
}
int statfs(const char* path, struct statfs* to) noexcept {
  return Fails("statfs", std::string(path)) ? -1 : Next(&statfs, "statfs")(path, to);
}
FAIL_CALL(int, -1, lstat, std::string(path), (const char* path, struct stat* to), (path, to))
FAIL_CALL(int, -1, fstat, fd, (int fd, struct stat* to), (fd, to))
FAIL_CALL(int, -1, fstat64, fd, (int fd, struct stat64* to), (fd, to))
FAIL_CALL(int, -1, fstatat, PLACE_AT, (int folder, const char* path, struct stat* to, int flags),
          (folder, path, to, flags))
FAIL_CALL(int, -1, statx, PLACE_AT,
          (int folder, const char* path, int flags, unsigned mask, struct statx* to),
          (folder, path, flags, mask, to))
FAIL_CALL(int, -1, fstatvfs, fd, (int fd, struct statvfs* to), (fd, to))
FAIL_CALL(int, -1, access, std::string(path), (const char* path, int mode), (path, mode))
FAIL_CALL(ssize_t, -1, readlink, std::string(path), (const char* path, char* to, size_t size),
          (path, to, size))
FAIL_CALL(char*, nullptr, realpath, std::string(path), (const char* path, char* to), (path, to))

DIR* opendir(const char* path) {
  return Fails("opendir", std::string(path)) ? nullptr : Next(&opendir, "opendir")(path);
}
DIR* fdopendir(int fd) {
  return Fails("fdopendir", fd) ? nullptr : Next(&fdopendir, "fdopendir")(fd);
}
dirent* readdir(DIR* folder) {
  return Fails("readdir", dirfd(folder)) ? nullptr : Next(&readdir, "readdir")(folder);
}

ssize_t read(int fd, void* to, size_t size) {
  return Fails("read", fd) ? -1 : Next(&read, "read")(fd, to, size);
}
ssize_t pread(int fd, void* to, size_t size, off_t at) {
  return Fails("pread", fd) ? -1 : Next(&pread, "pread")(fd, to, size, at);
}
ssize_t preadv(int fd, const iovec* to, int count, off_t at) {
  return Fails("preadv", fd) ? -1 : Next(&preadv, "preadv")(fd, to, count, at);
}
ssize_t write(int fd, const void* from, size_t size) {
  return Fails("write", fd) ? -1 : Next(&write, "write")(fd, from, size);
}
ssize_t pwrite(int fd, const void* from, size_t size, off_t at) {
  return Fails("pwrite", fd) ? -1 : Next(&pwrite, "pwrite")(fd, from, size, at);
}
ssize_t pwritev(int fd, const iovec* from, int count, off_t at) {
  return Fails("pwritev", fd) ? -1 : Next(&pwritev, "pwritev")(fd, from, count, at);
}
int fsync(int fd) { return Fails("fsync", fd) ? -1 : Next(&fsync, "fsync")(fd); }
int fdatasync(int fd) { return Fails("fdatasync", fd) ? -1 : Next(&fdatasync, "fdatasync")(fd); }
int fallocate(int fd, int mode, off_t at, off_t size) {
  return Fails("fallocate", fd) ? -1 : Next(&fallocate, "fallocate")(fd, mode, at, size);
}
FAIL_CALL(int, -1, ftruncate, fd, (int fd, off_t size), (fd, size))
FAIL_CALL(int, -1, flock, fd, (int fd, int operation), (fd, operation))
FAIL_CALL(int, -1, fchmod, fd, (int fd, mode_t mode), (fd, mode))
FAIL_CALL(int, -1, chmod, std::string(path), (const char* path, mode_t mode), (path, mode))
FAIL_CALL(int, -1, utimensat, PLACE_AT,
          (int folder, const char* path, const timespec* times, int flags),
          (folder, path, times, flags))

FAIL_CALL(int, -1, mkdir, std::string(path), (const char* path, mode_t mode), (path, mode))
FAIL_CALL(char*, nullptr, mkdtemp, std::string(path), (char* path), (path))
FAIL_CALL(int, -1, rename, std::string(from), (const char* from, const char* to), (from, to))
FAIL_CALL(int, -1, renameat2, std::string(from),
          (int folder, const char* from, int other, const char* to, unsigned flags),
          (folder, from, other, to, flags))
FAIL_CALL(int, -1, link, std::string(from), (const char* from, const char* to), (from, to))
FAIL_CALL(int, -1, symlink, std::string(path), (const char* target, const char* path),
          (target, path))
FAIL_CALL(int, -1, unlink, std::string(path), (const char* path), (path))
FAIL_CALL(int, -1, unlinkat, PLACE_AT, (int folder, const char* path, int flags),
          (folder, path, flags))
FAIL_CALL(int, -1, rmdir, std::string(path), (const char* path), (path))

}  // extern "C"
