// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace nxdkit {

struct CodePoint {
  uint32_t value = 0;
  int bytes = 0;  // length of its encoding
};

// The code point that starts at `offset` (< text.size()); nullopt if none does. Inline: tokenizers
// and templates call it for every character.
inline std::optional<CodePoint> DecodeUtf8(std::string_view text, size_t offset) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[offset + i]); };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const auto rest = [&](size_t i) { return uint32_t{byte(i)} & 0x3f; };
  const uint32_t first = byte(0);
  const size_t left = text.size() - offset;
  if (first < 0x80) return CodePoint{first, 1};
  if (first < 0xc2) return std::nullopt;  // continuation or overlong
  if (first < 0xe0) {
    if (left < 2 || !follows(1)) return std::nullopt;
    return CodePoint{(first & 0x1f) << 6 | rest(1), 2};
  }
  if (first < 0xf0) {
    if (left < 3 || !follows(1) || !follows(2)) return std::nullopt;
    const uint32_t value = (first & 0x0f) << 12 | rest(1) << 6 | rest(2);
    if (value < 0x800 || (value >= 0xd800 && value <= 0xdfff)) return std::nullopt;
    return CodePoint{value, 3};
  }
  if (left < 4 || !follows(1) || !follows(2) || !follows(3)) return std::nullopt;
  const uint32_t value = (first & 0x07) << 18 | rest(1) << 12 | rest(2) << 6 | rest(3);
  if (first > 0xf4 || value < 0x10000 || value > 0x10ffff) return std::nullopt;
  return CodePoint{value, 4};
}

// The offset of the first byte that does not start a code point; nullopt if the text is valid.
std::optional<size_t> ValidateUtf8(std::string_view text);
inline std::optional<size_t> ValidateUtf8(std::span<const std::byte> bytes) {
  return ValidateUtf8(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace nxdkit
