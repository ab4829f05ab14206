#include "lib/system/look.h"

#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "lib/base/errors.h"
#include "lib/system/paths.h"

namespace nxdkit {
namespace {

bool IsMissing(int failure) { return failure == ENOENT || failure == ENOTDIR; }

Error CannotLook(const std::string& path, int failure) {
  return SystemError("look at it", failure).in(path);
}

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

PathKind KindOfMode(mode_t mode) {
  if (S_ISREG(mode)) return PathKind::kFile;
  if (S_ISDIR(mode)) return PathKind::kFolder;
  return S_ISLNK(mode) ? PathKind::kLink : PathKind::kOther;
}

PathInfo InfoOf(const struct stat& at) {
  return {KindOfMode(at.st_mode),
          static_cast<uint64_t>(at.st_size),
          static_cast<uint64_t>(at.st_nlink),
          static_cast<uint64_t>(at.st_dev),
          static_cast<uint64_t>(at.st_ino),
          Nanoseconds(at.st_atim),
          Nanoseconds(at.st_mtim),
          Nanoseconds(at.st_ctim)};
}

// A closer look at a path that stat(2) reports as missing: it reports the same for a link to
// nothing, and for a path below one. Both are errors.
Result<PathInfo> LookAgain(const std::string& path) {
  std::string at = path;
  struct stat found;
  while (true) {
    while (at.size() > 1 && at.ends_with('/')) at.pop_back();
    if (::lstat(at.c_str(), &found) == 0) break;
    if (!IsMissing(errno)) return CannotLook(at, errno);
    const std::string parent = ParentPath(at);
    if (parent == at) return PathInfo();
    at = parent;
  }
  if (S_ISLNK(found.st_mode)) {
    if (::stat(at.c_str(), &found) == 0) return PathInfo();
    if (!IsMissing(errno)) return CannotLook(at, errno);
    return Corrupt("a symbolic link that leads to nothing").in(at);
  }
  // Made meanwhile; or a file system, such as NFS, has only now heard of it.
  return at == path ? InfoOf(found) : PathInfo();
}

Result<bool> Is(const std::string& path, PathKind wanted) {
  NXDKIT_ASSIGN(const PathKind kind, KindOf(path));
  return kind == wanted;
}

// Most file systems give the kind with the name.
std::optional<PathKind> OwnKind(const dirent& entry) {
  if (entry.d_type == DT_REG) return PathKind::kFile;
  if (entry.d_type == DT_DIR) return PathKind::kFolder;
  if (entry.d_type == DT_LNK) return PathKind::kLink;
  return entry.d_type == DT_UNKNOWN ? std::nullopt : std::optional(PathKind::kOther);
}

}  // namespace

Result<PathInfo> LookAt(const std::string& path) {
  struct stat at;
  if (::stat(path.c_str(), &at) == 0) return InfoOf(at);
  if (!IsMissing(errno)) return CannotLook(path, errno);
  return LookAgain(path);
}

Result<PathInfo> LookAtLink(const std::string& path) {
  struct stat at;
  if (::lstat(path.c_str(), &at) == 0) return InfoOf(at);
  if (!IsMissing(errno)) return CannotLook(path, errno);
  NXDKIT_TRY(LookAgain(ParentPath(path)));
  return PathInfo();
}

Result<PathKind> KindOf(const std::string& path) {
  NXDKIT_ASSIGN(const PathInfo info, LookAt(path));
  return info.kind;
}

Result<bool> IsThere(const std::string& path) {
  NXDKIT_ASSIGN(const bool missing, Is(path, PathKind::kMissing));
  return !missing;
}

Result<bool> IsFile(const std::string& path) { return Is(path, PathKind::kFile); }

Result<bool> IsFolder(const std::string& path) { return Is(path, PathKind::kFolder); }

Result<bool> HasFile(const std::string& folder, std::string_view name) {
  return IsFile(JoinPath(folder, name));
}

Result<bool> IsLink(const std::string& path) {
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(path));
  return info.kind == PathKind::kLink;
}

Result<std::string> ReadLink(const std::string& path) {
  std::string target(PATH_MAX, '\0');
  const ssize_t bytes = ::readlink(path.c_str(), target.data(), target.size());
  if (bytes >= 0) return target.substr(0, static_cast<size_t>(bytes));
  if (errno == EINVAL) return std::string();  // anything but a link
  if (!IsMissing(errno)) return CannotLook(path, errno);
  NXDKIT_TRY(LookAgain(ParentPath(path)));
  return std::string();
}

PathKind KindForHint(const std::string& path) {
  const Result<PathKind> kind = KindOf(path);
  return kind.ok() ? *kind : PathKind::kOther;
}

Result<std::vector<FolderEntry>> ListEntries(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (folder == nullptr) return SystemError("open the folder", errno).in(path);
  std::vector<FolderEntry> entries;
  errno = 0;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") entries.push_back({entry->d_name, OwnKind(*entry)});
    errno = 0;
  }
  // An error of its own kind: a folder that could be opened is not missing.
  if (errno != 0) return OutputError("list the folder", errno).in(path);
  std::ranges::sort(entries, {}, &FolderEntry::name);
  return entries;
}

Result<std::vector<std::string>> ListFolder(const std::string& path) {
  NXDKIT_ASSIGN(std::vector<FolderEntry> entries, ListEntries(path));
  std::vector<std::string> names;
  for (FolderEntry& entry : entries) names.push_back(std::move(entry.name));
  return names;
}

Result<std::vector<std::string>> ListIfThere(const std::string& path) {
  Result<std::vector<std::string>> names = ListFolder(path);
  if (names.ok() || names.error().code() != Errc::kNotFound) return names;
  NXDKIT_ASSIGN(const bool folder, IsFolder(path));
  if (folder) return names;
  return std::vector<std::string>();
}

Result<std::vector<TreeEntry>> ListTree(const std::string& folder) {
  std::vector<TreeEntry> all;
  std::vector<std::string> left = {""};
  while (!left.empty()) {
    const std::string below = std::move(left.back());
    left.pop_back();
    const std::string here = below.empty() ? folder : JoinPath(folder, below);
    const size_t first = all.size();
    const Result<std::vector<FolderEntry>> listed = ListEntries(here);
    if (!listed.ok() && listed.error().code() == Errc::kNotFound) {
      NXDKIT_ASSIGN(const bool there, IsFolder(here));
      if (!there) continue;
    }
    if (!listed.ok()) return listed.error();
    for (const FolderEntry& entry : *listed) {
      const std::string path = below.empty() ? entry.name : JoinPath(below, entry.name);
      NXDKIT_ASSIGN(const PathInfo info, entry.kind ? Result<PathInfo>(PathInfo{*entry.kind})
                                                    : LookAtLink(JoinPath(folder, path)));
      if (info.kind != PathKind::kMissing) all.push_back({path, info.kind});
    }
    for (size_t i = all.size(); i-- > first;)
      if (all[i].kind == PathKind::kFolder) left.push_back(all[i].path);
  }
  return all;
}

}  // namespace nxdkit
