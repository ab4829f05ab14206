// A text file that grows by whole pieces: a log.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lib/system/file.h"

namespace nxdkit::trainer {

// Each Append is one write at the end, so a crash can only cut the last piece. One thread.
class AppendFile {
 public:
  using Fill = std::function<Status(AppendFile&)>;

  // Replaces the file's contents, completely or not at all, with the text that `fill` appends, and
  // appends to that.
  static Result<AppendFile> Begin(const std::string& path, const Fill& fill);
  static Result<AppendFile> Begin(const std::string& path, std::string_view contents);
  // Appends to the existing contents.
  static Result<AppendFile> Open(const std::string& path);

  Status Append(std::string_view piece);
  Status Sync() { return file_.Sync(); }

 private:
  File file_;
  uint64_t end_ = 0;
};

}  // namespace nxdkit::trainer
