// PRIVATE to trainer/reward. Text as the reference's Python sees it, in addition to
// base/characters.h. Everything here is linear in the length of the text.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trainer/base/characters.h"

namespace nxdkit::trainer {

// Whether the character at `at` is a letter (Unicode category L).
bool IsLetter(std::string_view text, size_t at);
// `text` with each `word` (not empty), left to right, replaced by the text that rewrite(rest, &out)
// appends. `rest` is the text after the word; rewrite returns how many of its bytes are replaced
// too.
template <typename Rewrite>
std::string RewriteEach(std::string_view text, std::string_view word, const Rewrite& rewrite) {
  std::string out;
  for (size_t at; (at = text.find(word)) != std::string_view::npos;) {
    out += text.substr(0, at);
    text.remove_prefix(at + word.size());
    text.remove_prefix(rewrite(text, &out));
  }
  return out.append(text);
}
// All of `from` (not empty), left to right, without searching the replacements.
std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to);
struct Replacement {
  std::string_view from, to;
};
// ReplaceAll with each of the list, in its order.
std::string ReplaceEach(std::string text, std::span<const Replacement> list);
// The content of "\text{...}" if that is the whole text and contains no line feed.
std::string_view UnwrapText(std::string_view text);

inline bool IsDigitAt(std::string_view text, size_t at) {
  return at < text.size() && IsDigit(text[at]);
}

}  // namespace nxdkit::trainer
