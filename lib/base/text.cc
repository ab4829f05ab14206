#include "lib/base/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "lib/base/errors.h"
#include "lib/base/utf8.h"

namespace nxdkit {
namespace {

bool IsUnsafe(uint32_t point) {
  const bool control = point < 0x20 || (point >= 0x7f && point <= 0x9f);
  const bool separator_or_direction = point == 0x200e || point == 0x200f ||
                                      (point >= 0x2028 && point <= 0x202e) ||
                                      (point >= 0x2066 && point <= 0x2069);
  return control || separator_or_direction;
}

// The names of tensors are shorter, and so are most paths.
constexpr size_t kMostName = 500;
constexpr size_t kShownOfName = 200;
constexpr size_t kMostText = 4000;
constexpr size_t kShownOfStart = 3000;
constexpr size_t kShownOfEnd = 500;

bool IsContinuation(char byte) { return (static_cast<uint8_t>(byte) & 0xc0) == 0x80; }

// The first `bytes` of a longer text, less the part of a UTF-8 sequence at their end.
std::string_view WholePoints(std::string_view text, size_t bytes) {
  const size_t least = bytes - 3;
  while (bytes > least && IsContinuation(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

std::string Human(double value, std::string_view suffix) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  if (value < 999.5) return fmt::format("{:.0f} B{}", value, suffix);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kPrefixes)) {
    value /= 1000;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}B{}", value, decimals, kPrefixes[unit], suffix);
}

struct Unit {
  std::string_view name;  // upper case
  uint64_t bytes;
};
constexpr Unit kUnits[] = {
    {"", 1},
    {"B", 1},
    {"K", 1000},
    {"KB", 1000},
    {"KIB", uint64_t{1} << 10},
    {"M", 1000'000},
    {"MB", 1000'000},
    {"MIB", uint64_t{1} << 20},
    {"G", 1000'000'000},
    {"GB", 1000'000'000},
    {"GIB", uint64_t{1} << 30},
    {"T", 1000'000'000'000},
    {"TB", 1000'000'000'000},
    {"TIB", uint64_t{1} << 40},
};

char Upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

Error NotBytes(std::string_view text, std::string_view why) {
  return BadUsage("'{}' {}", EscapeControl(text.substr(0, 80)), why)
      .hint("sizes are written as 4096, 500M, 4G (decimal) or 4GiB (binary)");
}

}  // namespace

std::string EscapeControl(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const std::optional<CodePoint> point = DecodeUtf8(text, i);
    const size_t bytes = point ? static_cast<size_t>(point->bytes) : 1;
    const std::string_view raw = text.substr(i, bytes);
    i += bytes;
    if (point && !IsUnsafe(point->value)) {
      escaped += raw;
      continue;
    }
    for (const char c : raw) escaped += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  }
  return escaped;
}

std::string ShortName(std::string_view name) {
  if (name.size() <= kMostName) return std::string(name);
  return fmt::format("{}... ({} bytes)", WholePoints(name, kShownOfName), name.size());
}

std::string ShortText(std::string text) {
  if (text.size() <= kMostName) return text;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    out += ShortName(std::string_view(text).substr(at, end - at));
    if (end < text.size()) out += text[end];
    at = end + 1;
  }
  if (out.size() <= kMostText) return out;
  std::string_view tail = std::string_view(out).substr(out.size() - kShownOfEnd);
  while (!tail.empty() && IsContinuation(tail.front())) tail.remove_prefix(1);
  return fmt::format("{}... ({} bytes) ...{}", WholePoints(out, kShownOfStart), text.size(), tail);
}

std::string HumanBytes(uint64_t bytes) { return Human(static_cast<double>(bytes), ""); }

std::string HumanRate(uint64_t bytes, double seconds) {
  if (!(seconds > 0)) return "- B/s";
  return Human(static_cast<double>(bytes) / seconds, "/s");
}

std::string Grouped(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string Grouped(int64_t count) {
  const std::string text =
      Grouped(count < 0 ? ~static_cast<uint64_t>(count) + 1 : static_cast<uint64_t>(count));
  return count < 0 ? "-" + text : text;
}

std::string Plural(std::string_view noun) {
  const auto ends = [&](std::string_view end) { return noun.ends_with(end); };
  const bool vowel_y = ends("ay") || ends("ey") || ends("oy") || ends("uy");
  if (ends("y") && !vowel_y) return std::string(noun.substr(0, noun.size() - 1)) + "ies";
  const bool hissing = ends("s") || ends("x") || ends("ch") || ends("sh");
  return std::string(noun) + (hissing ? "es" : "s");
}

size_t TextColumns(std::string_view text) {
  return text.size() - static_cast<size_t>(std::ranges::count_if(text, IsContinuation));
}

namespace {

constexpr std::string_view kDots = "...";

// The byte at which code point number `point` begins.
size_t ByteOf(std::string_view text, size_t point) {
  size_t at = 0;
  for (size_t points = 0; at < text.size(); ++at)
    if (!IsContinuation(text[at]) && points++ == point) break;
  return at;
}

// `start` code points, dots, and the last of the rest, in `columns`.
std::string Shorten(std::string_view text, size_t start, size_t columns) {
  const size_t end = columns - kDots.size() - start;
  return std::string(text.substr(0, ByteOf(text, start))) + std::string(kDots) +
         std::string(text.substr(ByteOf(text, TextColumns(text) - end)));
}

}  // namespace

std::string ShortenMiddle(std::string_view text, size_t columns) {
  if (TextColumns(text) <= columns) return std::string(text);
  if (columns < kDots.size() + 2) return std::string(text.substr(0, ByteOf(text, columns)));
  return Shorten(text, (columns - kDots.size()) / 2, columns);
}

std::string ShortenStart(std::string_view text, size_t columns) {
  if (columns < kDots.size() + 2) return ShortenMiddle(text, columns);
  return TextColumns(text) <= columns ? std::string(text) : Shorten(text, 0, columns);
}

Result<uint64_t> ParseBytes(std::string_view text) {
  const size_t whole = std::min(text.size(), text.find_first_not_of("0123456789"));
  size_t end = whole;
  if (end < text.size() && text[end] == '.')
    while (++end < text.size() && IsDigit(text[end])) {
    }
  if (whole == 0 || text[end - 1] == '.') return NotBytes(text, "is not a size");
  std::string_view unit_text = text.substr(end);
  if (!unit_text.empty() && unit_text.front() == ' ') unit_text.remove_prefix(1);
  std::string unit_name(unit_text);
  std::ranges::transform(unit_name, unit_name.begin(), Upper);
  const Unit* const unit = std::ranges::find(kUnits, unit_name, &Unit::name);
  if (unit == std::end(kUnits)) return NotBytes(text, "does not end in a unit of bytes");

  // Digit by digit in 128 bits: n / 10^fraction_digits units, exactly.
  unsigned __int128 bytes = 0;
  unsigned __int128 scale = 1;
  for (size_t i = 0; i < end; ++i) {
    if (text[i] == '.') continue;
    bytes = bytes * 10 + static_cast<unsigned>(text[i] - '0');
    if (i > whole) scale *= 10;
    if (bytes > std::numeric_limits<uint64_t>::max() || scale > 1'000'000'000'000'000'000)
      return NotBytes(text, "is too long a number");
  }
  bytes *= unit->bytes;
  if (bytes % scale != 0) return NotBytes(text, "is not a whole number of bytes");
  if (bytes / scale > std::numeric_limits<uint64_t>::max())
    return NotBytes(text, "is over 2^64 - 1 bytes");
  return static_cast<uint64_t>(bytes / scale);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // distances from a's prefix to each prefix of b
  std::iota(row.begin(), row.end(), size_t{0});
  std::vector<size_t> above = row;
  std::vector<size_t> two_above = row;
  for (size_t i = 0; i < a.size(); ++i) {
    two_above.swap(above);
    above.swap(row);
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = above[j] + (a[i] == b[j] ? 0 : 1);
      row[j + 1] = std::min({replaced, row[j] + 1, above[j + 1] + 1});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
        row[j + 1] = std::min(row[j + 1], two_above[j - 1] + 1);
    }
  }
  return row[b.size()];
}

namespace {

// "model.norm" in "model.norm.weight": starting at the beginning of a part. Short words are
// skipped: they match too many names.
bool HasPart(std::string_view text, std::string_view word) {
  constexpr size_t kShort = 4;
  if (word.size() < kShort) return false;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1))
    if (at == 0 || (!IsAlnum(text[at - 1]) && IsAlnum(word.front()))) return true;
  return false;
}

}  // namespace

std::optional<std::string> ClosestWord(std::string_view word,
                                       std::span<const std::string> candidates) {
  size_t nearest = std::max<size_t>(1, word.size() / 3) + 1;
  std::optional<std::string> found;
  if (word.size() > kMostName) return std::nullopt;
  for (const std::string& candidate : candidates) {
    const size_t longer = std::max(word.size(), candidate.size());
    if (longer - std::min(word.size(), candidate.size()) >= nearest) continue;
    const size_t distance = EditDistance(word, candidate);
    if (distance >= nearest) continue;
    nearest = distance;
    found = candidate;
  }
  const auto has_word = [&](const std::string& candidate) { return HasPart(candidate, word); };
  const auto longer = std::ranges::find_if(candidates, has_word);
  return found || longer == candidates.end() ? found : *longer;
}

// On a mismatch only the last star is widened: what came before it has matched as early as it can,
// so the time is at most pattern * text.
bool GlobMatch(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t after_star = std::string_view::npos;
  size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      star_text = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (after_star != std::string_view::npos) {
      p = after_star;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace nxdkit
