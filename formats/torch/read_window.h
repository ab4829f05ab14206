// Many small reads of one file in ascending order, as few system calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "lib/system/file.h"

namespace nxdkit::torch {

// 100,000 headers of small tensors lie close together: one read serves many of them. Headers of
// large tensors lie far apart: each then costs one read of kReadAhead bytes. Not thread-safe.
class ReadWindow {
 public:
  // Reads of [0, limit) only. `file` must outlive the window.
  ReadWindow(const File& file, uint64_t limit) : file_(file), limit_(limit) {}

  // The bytes [offset, offset + bytes); valid until the next call. kCorrupt past the limit.
  Result<std::string_view> At(uint64_t offset, uint64_t bytes);

 private:
  static constexpr uint64_t kReadAhead = 16 << 10;
  const File& file_;
  uint64_t limit_;
  uint64_t start_ = 0;
  std::string buffer_;
};

}  // namespace nxdkit::torch
