#include "formats/torch/read_window.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

namespace nxdkit::torch {

Result<std::string_view> ReadWindow::At(uint64_t offset, uint64_t bytes) {
  if (offset > limit_ || bytes > limit_ - offset)
    return Error(Errc::kCorrupt,
                 fmt::format("{} bytes at offset {} are expected, but they end at most at {}",
                             bytes, offset, limit_))
        .at(offset);
  const bool inside =
      offset >= start_ && offset + bytes <= start_ + static_cast<uint64_t>(buffer_.size());
  if (!inside) {
    const uint64_t want = std::min(std::max(bytes, kReadAhead), limit_ - offset);
    buffer_.resize(static_cast<size_t>(want));
    start_ = offset;
    NXDKIT_TRY(file_.ReadAt(offset, std::as_writable_bytes(std::span(buffer_))));
  }
  return std::string_view(buffer_).substr(static_cast<size_t>(offset - start_),
                                          static_cast<size_t>(bytes));
}

}  // namespace nxdkit::torch
