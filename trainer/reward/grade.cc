#include "trainer/reward/grade.h"

#include <fmt/core.h>

#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "trainer/base/python_numbers.h"
#include "trainer/reward/latex_text.h"
#include "trainer/reward/mathd.h"
#include "trainer/reward/symbolic.h"
#include "trainer/reward/text.h"

namespace nxdkit::trainer {
namespace {

constexpr size_t kMaxAnswerBytes = 10000;
constexpr double kIntegerTolerance = 1e-7;
constexpr size_t kMaxLetters = 2;  // distinct ones in an expression that is evaluated
constexpr std::string_view kBrackets = "()[]";

constexpr Replacement kWords[] = {
    {"\\%", "%"},
    {"\\$", "$"},
    {"$", ""},
    {"%", ""},
    {" or ", " , "},
    {" and ", " , "},
    {"million", "*10^6"},
    {"billion", "*10^9"},
    {"trillion", "*10^12"},
};
// Removed in this order, with a following "es", "s", spaces and power.
constexpr std::string_view kUnits[] = {"degree", "cm",   "centimeter", "meter", "mile",  "second",
                                       "minute", "hour", "day",        "week",  "month", "year",
                                       "foot",   "feet", "inch",       "yard"};
// Characters that the reference's expressions understand.
constexpr Replacement kGlyphs[] = {{"\u221a", "sqrt"}, {"\u03c0", "pi"}, {"\u221e", "inf"},
                                   {"\u222a", "U"},    {"\u00b7", "*"},  {"\u00d7", "*"}};

size_t SkipSpaces(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(' ', at), text.size());
}

size_t SkipDigits(std::string_view text, size_t at) {
  while (IsDigitAt(text, at)) ++at;
  return at;
}

// The length of the text that belongs to a unit.
size_t UnitTail(std::string_view rest) {
  size_t at = rest.starts_with("es") ? 2 : 0;
  if (rest.substr(at).starts_with('s')) ++at;
  at = SkipSpaces(rest, at);
  if (rest.substr(at).starts_with('^') && IsDigitAt(rest, at + 1)) at = SkipDigits(rest, at + 1);
  return at;
}

// "^\circ", with spaces after the "^".
std::string RemoveDegrees(std::string_view text) {
  constexpr std::string_view kCirc = "\\circ";
  return RewriteEach(text, "^", [&](std::string_view rest, std::string* out) {
    const size_t spaces = SkipSpaces(rest, 0);
    if (rest.substr(spaces).starts_with(kCirc)) return spaces + kCirc.size();
    out->append("^").append(rest.substr(0, spaces));
    return spaces;
  });
}

std::optional<double> ParseFloat(std::string_view text) {
  const std::optional<double> value = ParsePythonFloat(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

bool IsInteger(double value) {
  return std::abs(value - std::nearbyint(value)) <= kIntegerTolerance;
}

std::string IntegerText(double value) { return value == 0 ? "0" : fmt::format("{:.0f}", value); }

// "(\d),(\d\d\d)" before the end or a character that is not a digit. That character is part of the
// match, so every other comma of "1,000,000,000" stays, as in the reference.
std::string StripCommasOnce(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool matches = IsDigit(text[at]) && at + 1 < text.size() && text[at + 1] == ',' &&
                         IsDigitAt(text, at + 2) && IsDigitAt(text, at + 3) &&
                         IsDigitAt(text, at + 4) && !IsDigitAt(text, at + 5);
    if (!matches) {
      out += text[at++];
      continue;
    }
    out += text[at];
    out += text.substr(at + 2, 4);
    at += 6;
  }
  return out;
}

std::string StripCommas(std::string_view text) {
  std::string now(text);
  for (;;) {
    std::string next = StripCommasOnce(now);
    if (next == now) return now;
    now = std::move(next);
  }
}

bool LooksLikeInteger(std::string_view text) {
  const std::optional<double> value = ParseFloat(StripCommas(text));
  return value && IsInteger(*value);
}

// "7 3/4" -> "7+3/4": a digit, spaces, a digit.
std::string AddMixedNumbers(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    out += text[at];
    const size_t after = IsDigit(text[at]) ? SkipSpaces(text, at + 1) : at + 1;
    if (after > at + 1) {
      if (IsDigitAt(text, after)) {
        out += '+';
        out += text[after];
        at = after + 1;
        continue;
      }
      out += text.substr(at + 1, after - at - 1);
    }
    at = after;
  }
  return out;
}

std::string ReadLatex(const std::string& text) {
  std::string latex = ReplaceAll(ReplaceAll(text, "\\tfrac", "\\frac"), "\\dfrac", "\\frac");
  latex = ReplaceAll(latex, "\\frac", " \\frac");  // apart from the whole number before it
  const std::optional<std::string> plain = LatexToText(latex);
  return plain ? std::string(Strip(ReplaceEach(*plain, kGlyphs))) : text;
}

// -?[0-9]+.?/0*[1-9][0-9]*.?, with any character for the dots.
bool IsFraction(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  size_t at = text.starts_with('-') ? 1 : 0;
  if (!IsDigitAt(text, at)) return false;
  at = SkipDigits(text, at);
  if (at < text.size() && text[at] != '/') at += CharBytes(text, at);
  if (at >= text.size() || text[at] != '/') return false;
  const size_t under = at + 1;
  at = SkipDigits(text, under);
  if (text.substr(under, at - under).find_first_not_of('0') == std::string_view::npos) return false;
  return at == text.size() || at + CharBytes(text, at) == text.size();
}

std::vector<std::string> SplitTuple(std::string_view normalized) {
  const std::string text = StripCommas(normalized);
  if (text.empty()) return {};
  const auto is_bracket = [](char c) { return kBrackets.find(c) != std::string_view::npos; };
  const std::string_view inside = std::string_view(text).substr(1, text.size() - 2);
  if (text.size() <= 2 || !is_bracket(text.front()) || !is_bracket(text.back()) ||
      inside.find_first_of(kBrackets) != std::string_view::npos)
    return {text};
  std::vector<std::string> elements;
  for (const std::string_view element : Split(inside, ',')) elements.emplace_back(Strip(element));
  return elements;
}

// The reference does not evaluate text, or powers that may take long.
bool MayEvaluate(std::string_view text) {
  const std::string letters = ReplaceAll(ReplaceAll(text, "sqrt", ""), "frac", "");
  std::set<std::string> seen;
  for (size_t at = 0; at < letters.size(); at += CharBytes(letters, at))
    if (IsLetter(letters, at)) seen.insert(letters.substr(at, CharBytes(letters, at)));
  if (seen.size() > kMaxLetters) return false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '^' || at + 1 == text.size()) continue;
    if (text[at + 1] == '{' || text[at + 1] == '(') return false;
    const size_t after = SkipDigits(text, at + 1);
    if (after > at + 2 || (after == at + 2 && after < text.size() && text[after] == '^'))
      return false;
  }
  return true;
}

bool ElementsAreEqual(const std::string& truth, const std::string& given) {
  if (IsFraction(truth) && IsFraction(given)) return truth == given;
  if (LooksLikeInteger(truth) != LooksLikeInteger(given)) return false;
  // Python ignores line feeds around an expression.
  return MayEvaluate(fmt::format("({})-({})", truth, given)) &&
         AreEqualExpressions(Strip(truth), Strip(given));
}

}  // namespace

std::string NormalizeAnswer(std::string_view answer) {
  std::string text = ReplaceEach(std::string(UnwrapText(answer)), kWords);
  for (const std::string_view unit : kUnits)
    text = RewriteEach(text, unit, [](std::string_view rest, auto*) { return UnitTail(rest); });
  text = RemoveDegrees(text);
  if (!text.empty() && text.front() == '{' && text.back() == '}')
    text = text.size() < 2 ? "" : text.substr(1, text.size() - 2);
  text =
      RewriteEach(text, ",\\!", [](std::string_view rest, auto*) { return SkipSpaces(rest, 0); });
  if (const std::optional<double> value = ParseFloat(text); value && IsInteger(*value))
    text = IntegerText(std::nearbyint(*value));
  if (text.find('\\') != std::string::npos) text = ReadLatex(text);
  text = RewriteEach(text, "-", [](std::string_view rest, std::string* out) {
    *out += '-';
    return SkipSpaces(rest, 0);
  });
  text = ReplaceAll(AddMixedNumbers(text), " ", "");
  text = ToLower(ReplaceAll(ReplaceAll(text, "{", ""), "}", ""));
  if (!LooksLikeInteger(text)) return text;
  const std::optional<double> value = ParseFloat(ReplaceAll(text, ",", ""));
  return value ? IntegerText(std::trunc(*value)) : text;
}

bool GradeAnswer(std::string_view given, std::string_view truth) {
  if (NormalizeMathd(given) == NormalizeMathd(truth)) return true;
  if (given.size() > kMaxAnswerBytes || truth.size() > kMaxAnswerBytes) return false;
  const std::string answer = NormalizeAnswer(given);
  const std::string expected = NormalizeAnswer(truth);
  if (answer == expected) return true;
  if (answer.empty() || expected.empty()) return false;
  const std::vector<std::string> elements = SplitTuple(expected);
  const std::vector<std::string> found = SplitTuple(answer);
  if (elements.size() > 1 &&
      (expected.front() != answer.front() || expected.back() != answer.back()))
    return false;
  return std::ranges::equal(elements, found, ElementsAreEqual);
}

}  // namespace nxdkit::trainer
