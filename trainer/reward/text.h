// PRIVATE to trainer/reward. Text as the reference's Python sees it: characters are code points,
// bytes that are not UTF-8 count one each. Everything here is linear in the length of the text.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nxdkit::trainer {

// Bytes of the character at `at` (< text.size()).
size_t CharBytes(std::string_view text, size_t at);
// The character at `at` is a letter (Unicode category L).
bool IsLetter(std::string_view text, size_t at);
// The bytes of the white space character at `at`; 0 when it is none.
size_t SpaceBytes(std::string_view text, size_t at);

size_t CountChars(std::string_view text);
std::string_view Strip(std::string_view text);
std::string Lower(std::string_view text);
// All of `from` (not empty), left to right, without looking at what was put in.
std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to);
struct Replacement {
  std::string_view from, to;
};
// ReplaceAll with each of the list, in its order.
std::string ReplaceEach(std::string text, std::span<const Replacement> list);
// The content of "\text{...}" when that is all of the text, and holds no line feed.
std::string_view UnwrapText(std::string_view text);

// The number that all of the text is, as strtod reads it, whatever the locale; infinite or 0 beyond
// the range of f64.
std::optional<double> ParseDouble(const std::string& text);

inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }
inline bool IsDigitAt(std::string_view text, size_t at) {
  return at < text.size() && IsDigit(text[at]);
}

}  // namespace nxdkit::trainer
