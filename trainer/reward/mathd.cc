#include "trainer/reward/mathd.h"

#include <optional>

#include "trainer/reward/text.h"

namespace nxdkit::trainer {
namespace {

// Replaced in this order; the reference's own list.
constexpr Replacement kFirst[] = {
    {"\n", ""},     {"\\!", ""},     {"\\\\", "\\"},    {"tfrac", "frac"}, {"dfrac", "frac"},
    {"\\left", ""}, {"\\right", ""}, {"^{\\circ}", ""}, {"^\\circ", ""},   {"\\$", ""},
};
constexpr Replacement kSecond[] = {{"\\%", ""}, {"%", ""}, {" .", " 0."}, {"{.", "{0."}};

// Cuts a unit after the number: "5 \text{ cm}". The form requires that there are not two.
std::optional<std::string> CutUnit(const std::string& text) {
  constexpr std::string_view kUnit = "\\text{ ";
  const size_t at = text.find(kUnit);
  if (at == std::string::npos) return text;
  if (text.find(kUnit, at + kUnit.size()) != std::string::npos) return std::nullopt;
  return text.substr(0, at);
}

// "x=5", "k = 5": the text to the right of the only "=", if at most two characters are to its left.
std::string CutVariable(const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos || text.find('=', at + 1) != std::string::npos) return text;
  return CountChars(std::string_view(text).substr(0, at)) <= 2 ? text.substr(at + 1) : text;
}

// "\sqrt3" -> "\sqrt{3}". nullopt when nothing follows.
std::optional<std::string> BraceRoots(std::string_view text) {
  constexpr std::string_view kRoot = "\\sqrt";
  bool empty = false;
  std::string out = RewriteEach(text, kRoot, [&](std::string_view rest, std::string* braced) {
    // The next root counts as an end: in "\sqrt\sqrt2" the first one is empty.
    empty = empty || rest.empty() || rest.starts_with(kRoot);
    *braced += kRoot;
    if (rest.empty() || rest[0] == '{') return size_t{0};
    const size_t bytes = CharBytes(rest, 0);
    braced->append("{").append(rest.substr(0, bytes)).append("}");
    return bytes;
  });
  return empty ? std::nullopt : std::optional(std::move(out));
}

// "\frac12" -> "\frac{1}{2}", "\frac1{72}" -> "\frac{1}{72}". The unchanged text when a fraction
// has fewer than two characters, nullopt when it has none.
std::optional<std::string> BraceFractions(const std::string& whole) {
  constexpr std::string_view kFraction = "\\frac";
  std::string out;
  std::string_view text = whole;
  size_t next = text.find(kFraction);
  out += text.substr(0, next);
  while (next != std::string_view::npos) {
    text.remove_prefix(next + kFraction.size());
    next = text.find(kFraction);
    const std::string_view part = text.substr(0, next);
    if (part.empty()) return std::nullopt;
    out += kFraction;
    if (part[0] == '{') {
      out += part;
      continue;
    }
    const size_t one = CharBytes(part, 0);
    if (one == part.size()) return whole;
    const size_t two = CharBytes(part, one);
    out += "{" + std::string(part.substr(0, one)) + "}";
    if (part[one] == '{')
      out += part.substr(one);
    else
      out += "{" + std::string(part.substr(one, two)) + "}" + std::string(part.substr(one + two));
  }
  return out;
}

// An integer in Python's notation.
bool IsPlainInteger(std::string_view text) {
  if (text == "0") return true;
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.empty() || text[0] == '0') return false;
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string FractionOfSlash(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return text;
  const std::string over = text.substr(0, slash);
  const std::string under = text.substr(slash + 1);
  if (!IsPlainInteger(over) || !IsPlainInteger(under)) return text;
  return "\\frac{" + over + "}{" + under + "}";
}

std::optional<std::string> Reduce(std::string_view answer) {
  const std::optional<std::string> cut = CutUnit(ReplaceEach(std::string(answer), kFirst));
  if (!cut) return std::nullopt;
  std::string text = ReplaceEach(*cut, kSecond);
  if (text.empty()) return text;
  if (text[0] == '.') text = "0" + text;
  const std::optional<std::string> rooted = BraceRoots(CutVariable(text));
  if (!rooted) return std::nullopt;
  const std::optional<std::string> braced = BraceFractions(ReplaceAll(*rooted, " ", ""));
  if (!braced) return std::nullopt;
  return FractionOfSlash(*braced == "0.5" ? "\\frac{1}{2}" : *braced);
}

}  // namespace

std::string NormalizeMathd(std::string_view answer) {
  const std::string_view text = Strip(answer);
  const std::string_view inside = UnwrapText(text);
  const std::string_view trimmed = inside.size() == text.size() ? text : Strip(inside);
  return Reduce(trimmed).value_or(std::string(trimmed));
}

}  // namespace nxdkit::trainer
