#include "lib/system/file_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace nxdkit {

Result<std::shared_ptr<const File>> FileCache::Get(const std::string& path) {
  std::unique_lock lock(mutex_);
  const auto it = std::find_if(files_.begin(), files_.end(),
                               [&](const auto& file) { return file->path() == path; });
  if (it != files_.end()) {
    files_.splice(files_.begin(), files_, it);
    return std::shared_ptr<const File>(files_.front());
  }
  NXDKIT_ASSIGN(File file, mode_ == Mode::kRead ? File::OpenRead(path) : File::OpenWrite(path));
  const auto opened = std::make_shared<File>(std::move(file));
  files_.push_front(opened);
  if (files_.size() <= capacity_) return std::shared_ptr<const File>(opened);
  // The oldest file that nobody holds; only this cache could hand it out again.
  const auto unused = std::find_if(files_.rbegin(), files_.rend(),
                                   [](const auto& held) { return held.use_count() == 1; });
  if (unused == files_.rend()) return std::shared_ptr<const File>(opened);
  const std::shared_ptr<File> oldest = std::move(*unused);
  // Synchronises with its last user: use_count alone orders nothing.
  std::shared_ptr<File>(oldest).reset();
  files_.erase(std::next(unused).base());
  lock.unlock();  // closing a file of a network file system flushes it
  NXDKIT_TRY(oldest->Close());
  return std::shared_ptr<const File>(opened);
}

Status FileCache::Close() {
  const std::lock_guard lock(mutex_);
  Status closed;
  for (const std::shared_ptr<File>& file : std::exchange(files_, {}))
    if (Status status = file->Close(); closed.ok()) closed = std::move(status);
  return closed;
}

}  // namespace nxdkit
