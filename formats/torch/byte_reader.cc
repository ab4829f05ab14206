#include "formats/torch/byte_reader.h"

#include <algorithm>
#include <span>

#include "lib/base/errors.h"

namespace nxdkit::torch {

bool ByteReader::Take(uint64_t count, std::string_view& out) {
  if (count > left()) return false;
  out = bytes_.substr(position_, static_cast<size_t>(count));
  position_ += out.size();
  return true;
}

bool ByteReader::Number(size_t bytes, uint64_t& out) {
  std::string_view taken;
  if (!Take(bytes, taken)) return false;
  out = 0;
  for (size_t i = 0; i < bytes; ++i)
    out |= uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
  return true;
}

bool ByteReader::Line(std::string_view& out) {
  const size_t end = bytes_.find('\n', position_);
  if (end == std::string_view::npos) return false;
  out = bytes_.substr(position_, end - position_);
  position_ = end + 1;
  return true;
}

Result<std::string> ReadBytes(FileView file, uint64_t offset, uint64_t bytes) {
  std::string buffer(static_cast<size_t>(bytes), '\0');
  NXDKIT_TRY(file.ReadAt(offset, std::as_writable_bytes(std::span(buffer))));
  return buffer;
}

Result<std::string_view> ReadWindow::At(uint64_t offset, uint64_t bytes) {
  if (offset > limit_ || bytes > limit_ - offset)
    return Corrupt("{} bytes at offset {} are expected, but they end at most at {}", bytes, offset,
                   limit_)
        .at(offset);
  const bool inside =
      offset >= start_ && offset + bytes <= start_ + static_cast<uint64_t>(buffer_.size());
  if (!inside) {
    const uint64_t want = std::min(std::max(bytes, kReadAhead), limit_ - offset);
    NXDKIT_ASSIGN(buffer_, ReadBytes(file_, offset, want));
    start_ = offset;
  }
  return std::string_view(buffer_).substr(static_cast<size_t>(offset - start_),
                                          static_cast<size_t>(bytes));
}

}  // namespace nxdkit::torch
