#include "trainer/base/characters.h"

#include <utf8proc.h>

namespace nxdkit::trainer {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

constexpr Range kWhiteSpace[] = {
    {0x09, 0x0d},     {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
// Circled and squared letters are symbols by category, but alphabetic; ZWNJ and ZWJ join.
constexpr Range kWordSymbols[] = {
    {0x200c, 0x200d}, {0x24b6, 0x24e9}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};

template <size_t kCount>
bool IsIn(const Range (&ranges)[kCount], uint32_t point) {
  for (const Range& range : ranges)
    if (point >= range.first && point <= range.last) return true;
  return false;
}

}  // namespace

bool IsWhiteSpace(uint32_t point) { return IsIn(kWhiteSpace, point); }

bool IsPythonSpace(uint32_t point) {
  return (point >= 0x1c && point <= 0x1f) || IsWhiteSpace(point);
}

bool IsWordCharacter(uint32_t point) {
  switch (utf8proc_category(static_cast<int32_t>(point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return IsIn(kWordSymbols, point);
  }
}

size_t CharBytes(std::string_view text, size_t at) {
  const std::optional<CodePoint> point = DecodeUtf8(text, at);
  return point ? static_cast<size_t>(point->bytes) : 1;
}

size_t SpaceBytes(std::string_view text, size_t at) {
  if (at >= text.size()) return 0;
  const std::optional<CodePoint> point = DecodeUtf8(text, at);
  return point && IsPythonSpace(point->value) ? static_cast<size_t>(point->bytes) : 0;
}

size_t CountChars(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += CharBytes(text, at)) ++count;
  return count;
}

size_t CharBegin(std::string_view text, size_t at) {
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

std::string_view Strip(std::string_view text) {
  size_t begin = 0;
  while (const size_t bytes = SpaceBytes(text, begin)) begin += bytes;
  text.remove_prefix(begin);
  while (!text.empty()) {
    const size_t last = CharBegin(text, text.size() - 1);
    if (SpaceBytes(text, last) != text.size() - last) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

void AppendUtf8(uint32_t point, std::string* out) {
  uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<int32_t>(point), bytes);
  out->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

std::string ToLower(std::string_view text) {
  return MapEach(text, [](uint32_t point, size_t, std::string* out) {
    AppendUtf8(static_cast<uint32_t>(utf8proc_tolower(static_cast<int32_t>(point))), out);
  });
}

}  // namespace nxdkit::trainer
