#include "lib/base/utf8.h"

#include <bit>
#include <cstring>

namespace nxdkit {

std::optional<size_t> ValidateUtf8(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  size_t offset = 0;
  while (offset < text.size()) {
    uint64_t eight = 0;
    if (text.size() - offset >= sizeof eight) {
      std::memcpy(&eight, text.data() + offset, sizeof eight);
      const uint64_t high = eight & kHighBits;
      offset += high == 0 ? sizeof eight : static_cast<size_t>(std::countr_zero(high)) / 8;
      if (high == 0) continue;
    }
    const std::optional<CodePoint> point = DecodeUtf8(text, offset);
    if (!point) return offset;
    offset += static_cast<size_t>(point->bytes);
  }
  return std::nullopt;
}

}  // namespace nxdkit
