#include "lib/system/lines.h"

#include <algorithm>
#include <span>
#include <string>

#include "lib/base/errors.h"

namespace nxdkit {

Status ForEachLine(const File& file, uint64_t max_bytes, const LineTaker& each) {
  constexpr uint64_t kBlockBytes = 1 << 20;
  uint64_t number = 1;
  std::string line;  // as far as read
  const auto add = [&](std::string_view part) -> Status {
    if (part.size() > max_bytes - line.size())
      return OverLimit("line {}: it is over the limit of {} bytes", number, max_bytes);
    line += part;
    return OkStatus();
  };
  std::string block;
  for (uint64_t offset = 0; offset < file.bytes(); offset += block.size()) {
    block.resize(std::min(kBlockBytes, file.bytes() - offset));
    NXDKIT_TRY(file.ReadAt(offset, std::as_writable_bytes(std::span(block))));
    std::string_view left = block;
    for (size_t end; (end = left.find('\n')) != std::string_view::npos;) {
      NXDKIT_TRY(add(left.substr(0, end)));
      NXDKIT_TRY(each(line, number++, true));
      line.clear();
      left.remove_prefix(end + 1);
    }
    NXDKIT_TRY(add(left));
  }
  return line.empty() ? OkStatus() : each(line, number, false);
}

}  // namespace nxdkit
