// Folders that go with who made them.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "lib/base/error.h"

namespace nxdkit::ops {

// Move-only. After kill -9 it stays until a later one of its name is made beside it and nobody can
// be at work in it any more.
class ScratchFolder {
 public:
  // In `parent`, which is made: an absolute path. `name` is what it is for: a word.
  static Result<ScratchFolder> Make(const std::string& parent, std::string_view name);
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ScratchFolder& operator=(ScratchFolder&& other) = delete;
  ~ScratchFolder();
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Removes those of processes that died, as far as they are ours to remove.
void SweepScratchFolders(const std::string& parent, std::string_view name);

}  // namespace nxdkit::ops
