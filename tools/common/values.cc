#include "tools/common/values.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

namespace nxdkit::tool {
namespace {

Error WrongValue(std::string_view option, std::string_view found, std::string_view expected) {
  return Error(Errc::kUsage,
               fmt::format("option {}: found \"{}\", expected {}", option, found, expected));
}

std::string RangeText(IntegerRange range) {
  const IntegerRange any;
  if (range.min == any.min && range.max == any.max) return "a whole number";
  if (range.max == any.max) return fmt::format("a whole number of at least {}", range.min);
  return fmt::format("a whole number from {} to {}", range.min, range.max);
}

// Bytes of one unit; nullopt when the text is no unit.
std::optional<double> UnitBytes(std::string_view unit) {
  if (unit.empty() || unit == "b" || unit == "B") return 1;
  constexpr std::string_view kLetters = "kmgt";
  const size_t power = kLetters.find(static_cast<char>(unit.front() | 0x20));
  if (power == std::string_view::npos) return std::nullopt;
  std::string rest;
  for (const char c : unit.substr(1)) rest += static_cast<char>(c | 0x20);
  if (rest.empty() || rest == "ib") return std::pow(1024.0, static_cast<double>(power + 1));
  if (rest == "b") return std::pow(1000.0, static_cast<double>(power + 1));
  return std::nullopt;
}

}  // namespace

Result<int64_t> ParseInteger(std::string_view option, std::string_view text, IntegerRange range) {
  int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = fault == std::errc() && end == text.data() + text.size();
  if (!whole || number < range.min || number > range.max)
    return WrongValue(option, text, RangeText(range));
  return number;
}

Result<uint64_t> ParseSize(std::string_view option, std::string_view text) {
  constexpr std::string_view kExpected = "a size of at least 1 byte such as 500M, 4G or 4GiB";
  double number = 0;
  const auto [end, fault] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (fault != std::errc()) return WrongValue(option, text, kExpected);
  const std::optional<double> unit = UnitBytes(text.substr(end - text.data()));
  if (!unit) return WrongValue(option, text, kExpected);
  const double bytes = number * *unit;
  // 2^63: far over any memory, and exact in a double. !(>=) so that a NaN fails.
  if (!(bytes >= 1) || bytes > 9223372036854775808.0) return WrongValue(option, text, kExpected);
  return static_cast<uint64_t>(bytes);
}

std::string SizeText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes > 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

}  // namespace nxdkit::tool
