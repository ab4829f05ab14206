#include "lib/system/file_cache.h"

#include <algorithm>
#include <utility>

namespace nxdkit {

Result<std::shared_ptr<const File>> FileCache::Get(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto it = std::find_if(files_.begin(), files_.end(),
                               [&](const auto& file) { return file->path() == path; });
  if (it != files_.end()) {
    files_.splice(files_.begin(), files_, it);
    return std::shared_ptr<const File>(files_.front());
  }
  NXDKIT_ASSIGN(File file, mode_ == Mode::kRead ? File::OpenRead(path) : File::OpenWrite(path));
  files_.push_front(std::make_shared<File>(std::move(file)));
  if (files_.size() > capacity_) {
    const std::shared_ptr<File> oldest = std::move(files_.back());
    files_.pop_back();
    if (oldest.use_count() == 1) NXDKIT_TRY(oldest->Close());
  }
  return std::shared_ptr<const File>(files_.front());
}

Status FileCache::Close() {
  const std::lock_guard lock(mutex_);
  Status closed;
  for (const std::shared_ptr<File>& file : std::exchange(files_, {}))
    if (Status status = file->Close(); closed.ok()) closed = std::move(status);
  return closed;
}

}  // namespace nxdkit
