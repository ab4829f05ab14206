// Text for people: names made safe to show, sizes, and near misses.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit {

// A name from a file, safe to show on a terminal: each byte of control characters (C0, DEL, C1), of
// characters that change the writing direction or end a line, and of anything that is not UTF-8
// becomes \xNN.
std::string EscapeControl(std::string_view text);

// A name from a file, for a message: a name over 500 bytes is cut to its first 200, with its
// length.
// "aaaa... (1048576 bytes)"
std::string ShortName(std::string_view name);
// A message in which every word is a ShortName; the middle of a message over 4000 bytes is left
// out. Error applies it to its own message.
std::string ShortText(std::string text);

// Decimal units, three significant digits: "999 B", "1.00 kB", "15.3 GB".
std::string HumanBytes(uint64_t bytes);
std::string HumanRate(uint64_t bytes, double seconds);  // "1.25 GB/s"; "- B/s" when seconds <= 0

// "254,656", "-1,000", whatever the locale.
std::string Grouped(uint64_t count);
std::string Grouped(int64_t count);
// A grouped count and its noun in English: "1 file", "2 files", "254,656 parameters", "0 entries".
template <std::integral Count>
std::string Counted(Count count, std::string_view noun);
std::string Plural(std::string_view noun);  // "files", "entries", "indexes"

// The columns that a text takes on a terminal: its code points.
size_t TextColumns(std::string_view text);
// A text of more than `columns` with "..." in its middle: "model.layers...weight". The end of a
// name tells more than its start and gets the odd column. Under 5 columns the text is cut.
std::string ShortenMiddle(std::string_view text, size_t columns);
// The end of a text of more than `columns`, after "...": "...7.self_attn.q_proj.weight". The layer
// and the module of a tensor are at the end of its name.
std::string ShortenStart(std::string_view text, size_t columns);

// "4096", "4G" = "4GB" = 4e9, "4GiB" = 2^32, "1.5M"; K M G T, any case, an optional space before
// the unit. kUsage for anything else, a fraction of a byte, or 2^64 and more.
Result<uint64_t> ParseBytes(std::string_view text);

// The whole text as a number, without spaces or a plus sign; nullopt if it is anything else or does
// not fit the type.
template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }  // ASCII, whatever the locale
inline bool IsAlnum(char c) {
  return IsDigit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// As Python's str.split(separator): one more part than there are separators, views into the text.
std::vector<std::string_view> Split(std::string_view text, char separator);

// The fewest insertions, deletions, replacements and swaps of neighbouring bytes.
size_t EditDistance(std::string_view a, std::string_view b);
// The candidate to offer after "did you mean": the nearest, first among equals, if no more than a
// third of `word` (at least 1) differs; else the first that contains the word as a part.
std::optional<std::string> ClosestWord(std::string_view word,
                                       std::span<const std::string> candidates);

template <std::integral Count>
std::string Counted(Count count, std::string_view noun) {
  std::string text;
  if constexpr (std::is_signed_v<Count>)
    text = Grouped(static_cast<int64_t>(count));
  else
    text = Grouped(static_cast<uint64_t>(count));
  return text + " " + (count == 1 ? std::string(noun) : Plural(noun));
}

// `*` matches any run of bytes, `?` one byte, all else itself. The whole text must match.
bool GlobMatch(std::string_view pattern, std::string_view text);

}  // namespace nxdkit
