// The free functions of lib/system/file.h: paths, folders and small files.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "lib/system/file.h"

namespace nxdkit {
namespace {

std::string_view WithoutTrailingSlashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

Status WriteNewFile(const std::string& path, std::string_view contents) {
  NXDKIT_ASSIGN(File file, File::OpenWrite(path));
  NXDKIT_TRY(file.WriteAt(0, std::as_bytes(std::span(contents))));
  NXDKIT_TRY(file.Sync());
  return file.Close();
}

}  // namespace

PathKind KindOf(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    // Something is there that cannot be looked at (a link to itself, no permission).
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    return missing ? PathKind::kMissing : PathKind::kOther;
  }
  if (S_ISREG(info.st_mode)) return PathKind::kFile;
  if (S_ISDIR(info.st_mode)) return PathKind::kFolder;
  return PathKind::kOther;
}

Result<std::string> ReadSmallFile(const std::string& path, uint64_t max_bytes) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  if (file.bytes() > max_bytes)
    return Error(Errc::kCorrupt,
                 fmt::format("file of {} bytes is over the limit of {}", file.bytes(), max_bytes))
        .in(path);
  std::string contents(file.bytes(), '\0');
  NXDKIT_TRY(file.ReadAt(0, std::as_writable_bytes(std::span(contents))));
  return contents;
}

Status WriteFileAtomic(const std::string& path, std::string_view contents) {
  const std::string temporary = fmt::format("{}.tmp-{}", path, ::getpid());
  ::unlink(temporary.c_str());  // of a killed process that had the same pid
  Status written = WriteNewFile(temporary, contents);
  if (written.ok() && ::rename(temporary.c_str(), path.c_str()) != 0)
    written = OutputError(fmt::format("rename {} to it", temporary), errno).in(path);
  if (!written.ok()) {
    ::unlink(temporary.c_str());
    return written;
  }
  return SyncFolder(ParentPath(path));
}

Status SyncFolder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return OutputError("open the folder", errno).in(path);
  int failure = 0;
  while (::fsync(fd) != 0) {
    failure = errno;
    if (failure != EINTR) break;
    failure = 0;
  }
  ::close(fd);
  // Some network file systems cannot sync a folder and say so with EINVAL.
  if (failure != 0 && failure != EINVAL) return OutputError("sync the folder", failure).in(path);
  return OkStatus();
}

Result<std::vector<std::string>> ListFolder(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (folder == nullptr) return SystemError("open the folder", errno).in(path);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr && errno != 0) return SystemError("list the folder", errno).in(path);
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string JoinPath(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

std::string BaseName(std::string_view path) {
  path = WithoutTrailingSlashes(path);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos || path.size() == 1) return std::string(path);
  return std::string(path.substr(slash + 1));
}

std::string ParentPath(std::string_view path) {
  path = WithoutTrailingSlashes(path);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(WithoutTrailingSlashes(path.substr(0, std::max<size_t>(slash, 1))));
}

}  // namespace nxdkit
