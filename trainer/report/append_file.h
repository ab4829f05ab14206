// A text file that grows by whole pieces: a log.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lib/system/file.h"

namespace nxdkit::trainer {

// Each Append is one write at the end, so a crash leaves at most its last piece cut. One thread.
class AppendFile {
 public:
  using Fill = std::function<Status(AppendFile&)>;

  // Puts what `fill` appends in place of what is there, whole or not at all, and appends to it.
  static Result<AppendFile> Begin(const std::string& path, const Fill& fill);
  static Result<AppendFile> Begin(const std::string& path, std::string_view contents);
  // Appends to what is there.
  static Result<AppendFile> Open(const std::string& path);

  Status Append(std::string_view piece);
  Status Sync() { return file_.Sync(); }

 private:
  File file_;
  uint64_t end_ = 0;
};

}  // namespace nxdkit::trainer
