#include "lib/page/ticks.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

namespace nxdkit::page {
namespace {

// A decimal number: digits x 10^exponent.
struct Decimal {
  int64_t digits = 0;
  int exponent = 0;
};

long double Size(const Decimal& number) {
  return static_cast<long double>(number.digits) *
         std::pow(10.0L, static_cast<long double>(number.exponent));
}

double ParseText(const std::string& text) {
  double value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc::result_out_of_range) return value;
  const bool tiny = text.find("e-") != text.npos;
  return tiny ? 0 : std::copysign(std::numeric_limits<double>::infinity(), text[0] == '-' ? -1 : 1);
}

// "0.25", "1500": without an exponent.
std::string PlainText(const Decimal& number) {
  std::string digits = std::to_string(std::abs(number.digits));
  if (number.exponent >= 0) {
    digits.append(static_cast<size_t>(number.exponent), '0');
  } else {
    const auto decimals = static_cast<size_t>(-number.exponent);
    if (digits.size() <= decimals) digits.insert(0, decimals + 1 - digits.size(), '0');
    digits.insert(digits.size() - decimals, ".");
  }
  return (number.digits < 0 ? "-" : "") + digits;
}

// "2.5e-06": as few digits as are exact, but one decimal at least.
std::string ExponentText(const Decimal& number) {
  std::string digits = std::to_string(std::abs(number.digits));
  const int exponent = number.exponent + static_cast<int>(digits.size()) - 1;
  digits.erase(std::max<size_t>(1, digits.find_last_not_of('0') + 1));
  if (digits.size() == 1) digits += '0';
  digits.insert(1, ".");
  return fmt::format("{}{}e{}{:02}", number.digits < 0 ? "-" : "", digits, exponent < 0 ? '-' : '+',
                     std::abs(exponent));
}

// The forms of numbers.h, by the size of the axis.
std::string TickText(const Decimal& number, double size, bool whole) {
  if (number.digits == 0) return "0";
  const bool plain = size >= 1e-3 && size < (whole ? 1e15 : 1e6);
  return plain ? PlainText(number) : ExponentText(number);
}

// The multiples of `step` in the range, of which no two are the same number.
std::vector<Tick> Multiples(double low, double high, const Decimal& step, bool whole) {
  constexpr long double kMostDigits = 9e18L;
  constexpr int kTries = 1000;  // more than there are in any range that is asked for
  const double size = std::max(std::abs(low), std::abs(high));
  std::vector<Tick> ticks;
  const long double first = std::ceil(static_cast<long double>(low) / Size(step)) - 2;
  for (int i = 0; i < kTries; ++i) {
    const long double digits = (first + i) * static_cast<long double>(step.digits);
    if (!(std::abs(digits) < kMostDigits)) return {};
    const std::string text = TickText({static_cast<int64_t>(digits), step.exponent}, size, whole);
    const double value = ParseText(text);
    if (value > high) break;
    if (value >= low && (ticks.empty() || value > ticks.back().value))
      ticks.push_back({value, text});
  }
  return ticks;
}

// Widens the range by a twentieth on both sides, or by a tenth of the only value.
void AddRoom(Axis& axis) {
  constexpr double kMost = std::numeric_limits<double>::max();
  constexpr double kLeast = std::numeric_limits<double>::denorm_min() * 16;
  const double size = std::max(std::abs(axis.low), std::abs(axis.high));
  const double room = axis.high > axis.low ? (axis.high / 2 - axis.low / 2) * 0.1
                      : size > 0           ? std::max(size * 0.1, kLeast)
                                           : 1;
  const double least = axis.low >= 0 ? 0 : -kMost;
  const double most = axis.high <= 0 && axis.low < 0 ? 0 : kMost;
  axis.low = std::max(axis.low - room, least);
  axis.high = std::min(axis.high + room, most);
}

}  // namespace

std::vector<Tick> TicksIn(double low, double high, bool whole) {
  const long double range = static_cast<long double>(high) - static_cast<long double>(low);
  if (!(range > 0)) {
    std::vector<Tick> one;
    if (whole) one = Multiples(low, high, {1, 0}, whole);
    if (one.empty()) one.push_back({low, fmt::format("{}", low)});
    return one;
  }
  const int most = static_cast<int>(std::ceil(std::log10(range)));
  std::vector<Tick> best;
  for (int n = most; n > most - 4; --n)
    for (const Decimal& step : {Decimal{5, n}, Decimal{25, n - 1}, Decimal{2, n}, Decimal{1, n}}) {
      if (whole && step.exponent < 0) continue;
      std::vector<Tick> ticks = Multiples(low, high, step, whole);
      if (ticks.size() > best.size()) best = std::move(ticks);
      if (best.size() >= 3) return best;
    }
  return best;
}

double Axis::Share(double value) const {
  if (!(high > low)) return 0.5;
  // The range of finite numbers may be infinite in double, and nothing in halves.
  const auto wide = [](double number) { return static_cast<long double>(number); };
  return static_cast<double>((wide(value) - wide(low)) / (wide(high) - wide(low)));
}

Axis ValueAxis(double low, double high) {
  Axis axis{.low = low, .high = high, .ticks = {}};
  AddRoom(axis);
  axis.ticks = TicksIn(axis.low, axis.high);
  return axis;
}

Axis StepAxis(double first, double last) {
  return {.low = first, .high = last, .ticks = TicksIn(first, last, true)};
}

}  // namespace nxdkit::page
