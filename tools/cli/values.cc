#include "tools/cli/values.h"

#include <fmt/core.h>

#include <charconv>

#include "lib/base/text.h"

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
  const Result<uint64_t> bytes = ParseBytes(text);
  if (!bytes.ok() || *bytes == 0)
    return WrongValue(option, text, "a size such as 500M, 4G or 4GiB");
  return *bytes;
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
