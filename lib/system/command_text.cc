#include "lib/system/command_text.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit {

std::string CommandText(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
      return IsAlnum(c) || std::strchr("-_./=:,+@%", c);
    });
    if (!text.empty()) text += ' ';
    if (plain) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

Result<std::vector<std::string>> SplitCommand(const std::string& text) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\t' || c == '\n';
    if (quote == 0 && space) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
      if (!word) word.emplace();
    } else if (c == quote) {
      quote = 0;
    } else {
      if (!word) word.emplace();
      *word += c;
    }
  }
  if (quote != 0) return BadUsage("the quote {} in \"{}\" is not closed", quote, text);
  if (word) words.push_back(*word);
  if (words.empty()) return BadUsage("an empty command");
  return words;
}

}  // namespace nxdkit
