#include "lib/system/folders.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "lib/system/descriptor.h"

namespace nxdkit {

namespace fs = std::filesystem;

Result<std::string> RealPath(const std::string& path) {
  if (path.empty()) return std::string();  // an empty path has none
  std::error_code error;
  std::string real = fs::weakly_canonical(path, error).string();
  if (error) return SystemError("find its real path", error.value()).in(path);
  if (!real.starts_with('/')) real = fs::absolute(real, error).lexically_normal().string();
  if (error) return SystemError("find its real path", error.value()).in(path);
  while (real.size() > 1 && real.ends_with('/')) real.pop_back();
  return real;
}

std::string NearestExisting(std::string path) {
  while (KindForHint(path) == PathKind::kMissing && ParentPath(path) != path)
    path = ParentPath(path);
  return path;
}

namespace {

// Makes the missing folders; false if another process removed one on the way.
Result<bool> MakeMissing(const std::string& path, bool sync) {
  std::vector<std::string> missing;
  for (std::string at = path;; at = ParentPath(at)) {
    NXDKIT_ASSIGN(const bool there, IsThere(at));
    if (there || ParentPath(at) == at) break;
    missing.push_back(at);
  }
  bool made = false;  // the last folder
  for (; !missing.empty(); missing.pop_back()) {
    const std::string& folder = missing.back();
    made = ::mkdir(folder.c_str(), 0777) == 0;
    if (!made && errno == ENOENT) return false;
    if (!made && errno != EEXIST) return OutputError("create the folder", errno).in(folder);
    if (sync) NXDKIT_TRY(SyncFolder(ParentPath(folder)));
  }
  // A folder that was made and is gone again is left for its user to notice.
  return made ? Result<bool>(true) : IsThere(path);
}

}  // namespace

Status MakeFolders(const std::string& path, bool sync) {
  constexpr int kMostTries = 1000;  // others may remove empty folders, again and again
  bool made = false;
  for (int tried = 0; !made && tried < kMostTries; ++tried)
    NXDKIT_TRY(MakeMissing(path, sync).To(made));
  NXDKIT_ASSIGN(const PathKind kind, KindOf(path));
  if (made && (kind == PathKind::kFolder || kind == PathKind::kMissing)) return OkStatus();
  return OutputError("create the folder", ENOTDIR).in(path);
}

Status RemoveTree(const std::string& path) {
  std::error_code failure;
  fs::remove_all(path, failure);
  if (failure) return OutputError("remove", failure.value()).in(path);
  return OkStatus();
}

Status RemoveContents(const std::string& folder) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(folder));
  for (const std::string& name : names) NXDKIT_TRY(RemoveTree(JoinPath(folder, name)));
  return OkStatus();
}

Status SyncFolder(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) return OutputError("open the folder", errno).in(path);
  int failure = EINTR;
  while (failure == EINTR) failure = ::fsync(folder.fd()) == 0 ? 0 : errno;
  // Some network file systems cannot sync a folder, and report EINVAL.
  if (failure != 0 && failure != EINVAL) return OutputError("sync the folder", failure).in(path);
  return OkStatus();
}

}  // namespace nxdkit
