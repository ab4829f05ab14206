#include "lib/base/utf8.h"

#include <cstring>

namespace nxdkit {
namespace {

constexpr uint64_t kHighBits = 0x8080808080808080;

}  // namespace

std::optional<CodePoint> DecodeUtf8(std::string_view text, size_t offset) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[offset + i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return CodePoint{first, 1};

  const int bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return std::nullopt;  // continuation, overlong or too large
  if (text.size() - offset < static_cast<size_t>(bytes)) return std::nullopt;
  uint32_t value = first & (0x7fu >> bytes);
  for (int i = 1; i < bytes; ++i) {
    const uint8_t next = byte(static_cast<size_t>(i));
    if ((next & 0xc0) != 0x80) return std::nullopt;
    value = value << 6 | (next & 0x3f);
  }
  const bool overlong = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (overlong || surrogate || value > 0x10ffff) return std::nullopt;
  return CodePoint{value, bytes};
}

std::optional<size_t> ValidateUtf8(std::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    uint64_t eight = 0;
    if (text.size() - offset >= sizeof eight) {
      std::memcpy(&eight, text.data() + offset, sizeof eight);
      if ((eight & kHighBits) == 0) {
        offset += sizeof eight;
        continue;
      }
    }
    const std::optional<CodePoint> point = DecodeUtf8(text, offset);
    if (!point) return offset;
    offset += static_cast<size_t>(point->bytes);
  }
  return std::nullopt;
}

}  // namespace nxdkit
