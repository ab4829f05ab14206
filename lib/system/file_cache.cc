#include "lib/system/file_cache.h"

#include <algorithm>

namespace nxdkit {

Result<std::shared_ptr<const File>> FileCache::Get(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto it = std::find_if(files_.begin(), files_.end(),
                               [&](const auto& file) { return file->path() == path; });
  if (it != files_.end()) {
    files_.splice(files_.begin(), files_, it);
    return files_.front();
  }
  NXDKIT_ASSIGN(File file, mode_ == Mode::kRead ? File::OpenRead(path) : File::OpenWrite(path));
  files_.push_front(std::make_shared<const File>(std::move(file)));
  if (files_.size() > capacity_) files_.pop_back();
  return files_.front();
}

void FileCache::Clear() {
  const std::lock_guard lock(mutex_);
  files_.clear();
}

}  // namespace nxdkit
