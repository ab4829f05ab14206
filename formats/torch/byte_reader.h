// PRIVATE: checked reads of bytes that came from a file, and small reads of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/system/file.h"

namespace nxdkit::torch {

// A cursor over bytes it does not own. A read past the end returns false, and leaves the cursor and
// the output unchanged.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes, size_t position = 0)
      : bytes_(bytes), position_(position) {}

  size_t position() const { return position_; }
  size_t left() const { return bytes_.size() - position_; }

  bool Take(uint64_t count, std::string_view& out);
  // Little-endian, 1 to 8 bytes.
  bool Number(size_t bytes, uint64_t& out);
  // Up to the next newline, which is consumed but not returned.
  bool Line(std::string_view& out);

 private:
  std::string_view bytes_;
  size_t position_;
};

// The bytes [offset, offset + bytes) of the file; kCorrupt when it ends before.
Result<std::string> ReadBytes(FileView file, uint64_t offset, uint64_t bytes);

// Many small reads of one file in ascending order, with few system calls. 100,000 headers of small
// tensors lie close together: one read serves many of them. Headers of large tensors lie far apart:
// each then costs one read of kReadAhead bytes. Not thread-safe.
class ReadWindow {
 public:
  // Reads only [0, limit). The file must outlive the window.
  ReadWindow(FileView file, uint64_t limit) : file_(file), limit_(limit) {}

  // The bytes [offset, offset + bytes); valid until the next call. kCorrupt past the limit.
  Result<std::string_view> At(uint64_t offset, uint64_t bytes);

 private:
  static constexpr uint64_t kReadAhead = 16 << 10;
  FileView file_;
  uint64_t limit_;
  uint64_t start_ = 0;
  std::string buffer_;
};

}  // namespace nxdkit::torch
