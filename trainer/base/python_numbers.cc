#include "trainer/base/python_numbers.h"

#include <locale.h>
#include <stdlib.h>
#include <utf8proc.h>

#include <algorithm>
#include <cmath>

#include "lib/base/text.h"
#include "lib/base/utf8.h"
#include "trainer/base/characters.h"

namespace nxdkit::trainer {
namespace {

bool IsDecimal(int32_t point) { return utf8proc_category(point) == UTF8PROC_CATEGORY_ND; }

// The digits of a script form blocks of ten that begin with its zero; several blocks may be
// adjacent.
std::string WithAsciiDigits(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharBytes(text, at);
    const std::optional<CodePoint> point = DecodeUtf8(text, at);
    const auto value = point ? static_cast<int32_t>(point->value) : 0;
    if (value < 0x80 || !IsDecimal(value)) {
      out += text.substr(at, bytes);
    } else {
      int32_t first = value;
      while (IsDecimal(first - 1)) --first;
      out += static_cast<char>('0' + (value - first) % 10);
    }
    at += bytes;
  }
  return out;
}

// The number in ASCII, without surrounding white space and inner underscores.
std::optional<std::string> PlainNumber(std::string_view text) {
  const std::string ascii = WithAsciiDigits(Strip(text));
  std::string plain;
  for (size_t i = 0; i < ascii.size(); ++i) {
    const bool joins =
        i > 0 && IsDigit(ascii[i - 1]) && i + 1 < ascii.size() && IsDigit(ascii[i + 1]);
    if (ascii[i] == '_' && !joins) return std::nullopt;
    if (ascii[i] != '_') plain += ascii[i];
  }
  return plain;
}

std::optional<double> SpecialFloat(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const std::string name = ToLower(text);
  if (name == "nan") return std::nan("");
  if (name != "inf" && name != "infinity") return std::nullopt;
  return is_negative ? -HUGE_VAL : HUGE_VAL;
}

}  // namespace

std::optional<double> ParseDouble(const std::string& text) {
  static const locale_t kPlain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  char* end = nullptr;
  const double value = ::strtod_l(text.c_str(), &end, kPlain);
  if (text.empty() || end != text.c_str() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> ParsePythonFloat(std::string_view text) {
  const std::optional<std::string> plain = PlainNumber(text);
  if (!plain) return std::nullopt;
  if (const std::optional<double> special = SpecialFloat(*plain)) return special;
  // Also rejects syntax that only C accepts: "0x10".
  if (plain->find_first_not_of("0123456789.eE+-") != std::string::npos) return std::nullopt;
  return ParseDouble(*plain);
}

std::optional<PythonInt> ParsePythonInt(std::string_view text) {
  const std::optional<std::string> plain = PlainNumber(text);
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const std::string_view unsigned_digits =
      digits.starts_with('-') && digits.data() == plain->data() ? digits.substr(1) : digits;
  if (unsigned_digits.empty() || !std::ranges::all_of(unsigned_digits, IsDigit))
    return std::nullopt;
  const std::optional<int64_t> value = ParseNumber<int64_t>(digits);
  return PythonInt{value.value_or(0), value.has_value()};
}

}  // namespace nxdkit::trainer
