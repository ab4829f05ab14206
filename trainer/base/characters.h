// Characters as Python and the tokenizers of models see them: classes of code points, and text by
// code points. Bytes that are not UTF-8 count one each and are kept. Everything is linear in the
// length of the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/text.h"
#include "lib/base/utf8.h"

namespace nxdkit::trainer {

// The Unicode property White_Space.
bool IsWhiteSpace(uint32_t point);
// str.isspace(): White_Space, and U+001C to U+001F.
bool IsPythonSpace(uint32_t point);
// \w in Unicode's regular expressions: letters, marks, decimal digits, connectors, joiners.
bool IsWordCharacter(uint32_t point);

// The size of the character at `at` (< text.size()), in bytes.
size_t CharBytes(std::string_view text, size_t at);
// The size of the character at `at` if Python takes it for white space; otherwise, and at the end,
// 0.
size_t SpaceBytes(std::string_view text, size_t at);
size_t CountChars(std::string_view text);
// The beginning of the character that contains the byte at `at` (< text.size()).
size_t CharBegin(std::string_view text, size_t at);
std::string_view Strip(std::string_view text);  // str.strip()

void AppendUtf8(uint32_t point, std::string* out);
// Concatenates what `map(code point, its place, &out)` appends for each character.
template <typename Map>
std::string MapEach(std::string_view text, const Map& map) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const std::optional<CodePoint> point = DecodeUtf8(text, at);
    if (point)
      map(point->value, at, &out);
    else
      out += text[at];
    at += point ? static_cast<size_t>(point->bytes) : 1;
  }
  return out;
}

std::string ToLower(std::string_view text);

}  // namespace nxdkit::trainer
