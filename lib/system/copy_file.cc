#include "lib/system/copy_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/system/file.h"
#include "lib/system/page_buffer.h"

namespace nxdkit {
namespace {

Status CopyBytes(const File& source, const File& target) {
  NXDKIT_TRY(target.Allocate(source.bytes()));
  const PageBuffer buffer(std::min<uint64_t>(source.bytes(), 1 << 20));
  for (uint64_t at = 0; at < source.bytes(); at += buffer.span().size()) {
    const std::span<std::byte> part =
        buffer.span().first(std::min<uint64_t>(buffer.span().size(), source.bytes() - at));
    NXDKIT_TRY(source.ReadAt(at, part));
    NXDKIT_TRY(target.WriteAt(at, part));
  }
  return OkStatus();
}

Status CopyOpened(const File& source, const std::string& to, bool sync) {
  NXDKIT_ASSIGN(File target, File::OpenWrite(to));
  NXDKIT_TRY(CopyBytes(source, target));
  if (sync) NXDKIT_TRY(target.Sync());
  return target.Close();
}

// Creates an empty file that nobody else may open.
Status CreatePrivate(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return OutputError("create it", errno).in(path);
  ::close(fd);
  return OkStatus();
}

}  // namespace

Status CopyFile(const std::string& from, const std::string& to, bool sync) {
  NXDKIT_ASSIGN(const File source, File::OpenRead(from));
  return CopyOpened(source, to, sync);
}

Status CopyFileItself(const std::string& from, const std::string& to, bool sync) {
  NXDKIT_ASSIGN(const File source, File::OpenRead(from));
  struct stat opened, there;
  if (::fstat(source.fd(), &opened) != 0 || ::lstat(from.c_str(), &there) != 0)
    return SystemError("look at it", errno).in(from);
  if (opened.st_dev != there.st_dev || opened.st_ino != there.st_ino)
    return Error(Errc::kUnsupported, "a symbolic link, expected a regular file").in(from);
  return CopyOpened(source, to, sync);
}

Status CopyFileAndAccess(const std::string& from, const std::string& to, bool sync) {
  NXDKIT_ASSIGN(const File source, File::OpenRead(from));
  NXDKIT_TRY(CreatePrivate(to));
  NXDKIT_ASSIGN(File target, File::OpenWrite(to));
  NXDKIT_TRY(CopyBytes(source, target));
  // Last: each write would clear set-user-ID again.
  NXDKIT_TRY(KeepAccess(from, target.fd(), to));
  if (sync) NXDKIT_TRY(target.Sync());
  return target.Close();
}

Status KeepAccess(const std::string& from, int fd, const std::string& to) {
  struct stat was;
  struct stat is;
  if (::stat(from.c_str(), &was) != 0) return SystemError("look at it", errno).in(from);
  (void)!::fchown(fd, was.st_uid, was.st_gid);  // only root may give files away
  if (::fstat(fd, &is) != 0) return SystemError("look at it", errno).in(to);
  mode_t mode = was.st_mode & 07777;
  if (is.st_uid != was.st_uid || is.st_gid != was.st_gid) mode &= ~mode_t{S_ISUID | S_ISGID};
  if ((is.st_mode & 07777) != mode && ::fchmod(fd, mode) != 0)
    return OutputError("set the mode", errno).in(to);
  return OkStatus();
}

}  // namespace nxdkit
