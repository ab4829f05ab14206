#include "trainer/text/byte_level.h"

#include <array>

#include "lib/base/utf8.h"
#include "trainer/base/characters.h"

namespace nxdkit::trainer {
namespace {

constexpr uint32_t kFirstShifted = 256;  // bytes that do not print map to 256 and above
constexpr uint32_t kLastCharacter = kFirstShifted + 67;

constexpr bool StandsForItself(uint32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr std::array<uint16_t, 256> MakeCharacters() {
  std::array<uint16_t, 256> characters{};
  uint32_t shifted = kFirstShifted;
  for (uint32_t byte = 0; byte < 256; ++byte)
    characters[byte] = static_cast<uint16_t>(StandsForItself(byte) ? byte : shifted++);
  return characters;
}
constexpr std::array<uint16_t, 256> kCharacters = MakeCharacters();

constexpr std::array<int16_t, kLastCharacter + 1> MakeBytes() {
  std::array<int16_t, kLastCharacter + 1> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (uint32_t byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = static_cast<int16_t>(byte);
  return bytes;
}
constexpr std::array<int16_t, kLastCharacter + 1> kBytes = MakeBytes();

// The number of bytes at `offset` that begin some code point, at least 1.
size_t BrokenBytes(std::string_view bytes, size_t offset) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t first = at(offset);
  size_t expected = 1;
  if (first >= 0xc2 && first <= 0xdf) expected = 2;
  if (first >= 0xe0 && first <= 0xef) expected = 3;
  if (first >= 0xf0 && first <= 0xf4) expected = 4;
  size_t length = 1;
  while (length < expected && offset + length < bytes.size()) {
    const uint8_t next = at(offset + length);
    uint8_t low = 0x80, high = 0xbf;
    if (length == 1 && first == 0xe0) low = 0xa0;   // else overlong
    if (length == 1 && first == 0xed) high = 0x9f;  // else a surrogate
    if (length == 1 && first == 0xf0) low = 0x90;
    if (length == 1 && first == 0xf4) high = 0x8f;  // else above U+10FFFF
    if (next < low || next > high) break;
    ++length;
  }
  return length;
}

}  // namespace

std::string TokenOfByte(uint8_t byte) {
  std::string token;
  AppendUtf8(kCharacters[byte], &token);
  return token;
}

std::string TokenOfBytes(std::string_view bytes) {
  std::string token;
  token.reserve(bytes.size() * 2);
  for (const char byte : bytes) AppendUtf8(kCharacters[static_cast<uint8_t>(byte)], &token);
  return token;
}

std::optional<std::string> BytesOfToken(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t i = 0; i < token.size();) {
    const std::optional<CodePoint> point = DecodeUtf8(token, i);
    if (!point || point->value > kLastCharacter || kBytes[point->value] < 0) return std::nullopt;
    bytes += static_cast<char>(kBytes[point->value]);
    i += static_cast<size_t>(point->bytes);
  }
  return bytes;
}

std::string Utf8Lossy(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (const std::optional<size_t> bad = ValidateUtf8(bytes)) {
    text.append(bytes.substr(0, *bad)).append("\xef\xbf\xbd");
    bytes.remove_prefix(*bad + BrokenBytes(bytes, *bad));
  }
  return text.append(bytes);
}

}  // namespace nxdkit::trainer
