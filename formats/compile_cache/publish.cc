#include "formats/compile_cache/publish.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <utility>

#include "lib/system/copy_file.h"
#include "lib/system/descriptor.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr size_t kMostWaiting = 1024;
constexpr uint64_t kMostWaitingBytes = uint64_t{4} << 30;

Status SyncFileSystem(const std::string& folder) {
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) return OutputError("open it", errno).in(folder);
  if (::syncfs(fd.fd()) != 0) return OutputError("bring it to the disk", errno).in(folder);
  return OkStatus();
}

}  // namespace

Status WriteAside(const std::string& aside, std::string_view text, const std::string& like) {
  NXDKIT_TRY(RemoveTree(aside));
  NXDKIT_ASSIGN(File file, File::OpenWrite(aside));
  NXDKIT_TRY(file.WriteAt(0, std::as_bytes(std::span(text.data(), text.size()))));
  if (!like.empty()) NXDKIT_TRY(KeepAccess(like, file.fd(), aside));
  return file.Close();
}

Result<bool> PublishNew(const std::string& aside, const std::string& target) {
  if (::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0)
    return true;
  if (errno == EEXIST || errno == ENOTEMPTY) return false;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
    return OutputError("rename it", errno).in(target);
  // A file system without renameat2's flag: a folder never replaces one that is not empty, and for
  // a file its absence is checked first.
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(target));
  if (info.kind != PathKind::kMissing) return false;
  if (::rename(aside.c_str(), target.c_str()) == 0) return true;
  if (errno == EEXIST || errno == ENOTEMPTY) return false;
  return OutputError("rename it", errno).in(target);
}

Status PublishOver(const std::string& aside, const std::string& target) {
  if (::rename(aside.c_str(), target.c_str()) != 0)
    return OutputError("rename it", errno).in(target);
  return OkStatus();
}

Batch::~Batch() {
  for (const Waiting& each : waiting_) (void)RemoveTree(each.aside).ok();
}

Status Batch::Add(std::string aside, uint64_t bytes, std::string parent,
                  std::function<Status()> publish) {
  waiting_.push_back({std::move(aside), std::move(publish)});
  parents_.insert(std::move(parent));
  bytes_ += bytes;
  if (waiting_.size() < kMostWaiting && bytes_ < kMostWaitingBytes) return OkStatus();
  return Flush();
}

Status Batch::Flush() {
  if (waiting_.empty()) return OkStatus();
  NXDKIT_TRY(SyncFileSystem(folder_));
  // Published files no longer have temporary names; the others are removed when an error ends this.
  for (const Waiting& each : waiting_) NXDKIT_TRY(each.publish());
  waiting_.clear();
  for (const std::string& parent : std::exchange(parents_, {})) {
    // Another process may have removed the folder, and everything published in it.
    NXDKIT_ASSIGN(const bool there, IsFolder(parent));
    if (there) NXDKIT_TRY(SyncFolder(parent));
  }
  bytes_ = 0;
  return OkStatus();
}

}  // namespace nxdkit::neff
