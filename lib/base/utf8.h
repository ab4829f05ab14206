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

// The code point that starts at `offset` (< text.size()); nullopt when none does.
std::optional<CodePoint> DecodeUtf8(std::string_view text, size_t offset);

// Offset of the first byte that does not start a code point; nullopt when all is well.
std::optional<size_t> ValidateUtf8(std::string_view text);
inline std::optional<size_t> ValidateUtf8(std::span<const std::byte> bytes) {
  return ValidateUtf8(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace nxdkit
