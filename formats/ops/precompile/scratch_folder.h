// Temporary folders that are removed with their owner.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "lib/base/error.h"
#include "lib/system/folder_lock.h"

namespace nxdkit::ops {

// Move-only, and locked while it lives. After kill -9 it stays until a later one of its name is
// made next to it and nobody can be at work in it any more.
class ScratchFolder {
 public:
  // In `parent`, which is created: an absolute path. `name` is a word for its purpose.
  static Result<ScratchFolder> Make(const std::string& parent, std::string_view name);
  ScratchFolder(ScratchFolder&& other) noexcept
      : path_(std::exchange(other.path_, "")), lock_(std::move(other.lock_)) {}
  ScratchFolder& operator=(ScratchFolder&& other) = delete;
  ~ScratchFolder();
  const std::string& path() const { return path_; }
  void Keep() { path_.clear(); }  // somebody else will remove it

 private:
  ScratchFolder(std::string path, FolderLock lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  FolderLock lock_;
};

// Removes the folders of processes that died, as far as they are ours to remove.
void SweepScratchFolders(const std::string& parent, std::string_view name);

}  // namespace nxdkit::ops
