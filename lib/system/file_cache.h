// A bounded number of open files for sets of thousands (xser keeps every tensor in its own file).
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "lib/system/file.h"

namespace nxdkit {

// Thread-safe. A file that drops out of the cache is closed, and Get returns the error of closing
// it. Files in use stay: there may be a few more than `capacity`.
class FileCache {
 public:
  enum class Mode { kRead, kWrite };
  FileCache(Mode mode, size_t capacity) : mode_(mode), capacity_(capacity) {}

  Result<std::shared_ptr<const File>> Get(const std::string& path);
  Status Close();  // closes all; none may be in use

 private:
  Mode mode_;
  size_t capacity_;
  std::mutex mutex_;
  std::list<std::shared_ptr<File>> files_;  // most recently used first
};

}  // namespace nxdkit
