#include "lib/page/ticks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <set>

namespace nxdkit::page {
namespace {

constexpr double kMax = std::numeric_limits<double>::max();
constexpr double kLeast = std::numeric_limits<double>::denorm_min();

// A decimal text as digits x 10^exponent, without zeros at the end.
struct Exact {
  __int128 digits = 0;
  int exponent = 0;
};

Exact Trimmed(Exact number) {
  if (number.digits == 0) return {};
  for (; number.digits % 10 == 0; number.digits /= 10) ++number.exponent;
  return number;
}

Exact ExactOf(const std::string& text) {
  Exact number;
  const size_t e = text.find('e');
  if (e != std::string::npos) number.exponent = std::atoi(text.c_str() + e + 1);
  bool point = false;
  for (const char c : text.substr(0, e)) {
    if (c == '.') point = true;
    if (c < '0' || c > '9') continue;
    number.digits = number.digits * 10 + (c - '0');
    if (point) --number.exponent;
  }
  if (text[0] == '-') number.digits = -number.digits;
  return Trimmed(number);
}

Exact Difference(Exact a, Exact b) {
  if (a.digits == 0) return {-b.digits, b.exponent};
  if (b.digits == 0) return a;
  for (; a.exponent > b.exponent; --a.exponent) a.digits *= 10;
  for (; b.exponent > a.exponent; --b.exponent) b.digits *= 10;
  return Trimmed({a.digits - b.digits, a.exponent});
}

// Two to five ticks in the range, ascending; each text is a decimal number whose nearest double is
// the tick.
void ExpectTicks(const std::vector<Tick>& ticks, double low, double high) {
  ASSERT_GE(ticks.size(), 2u) << low << " " << high;
  EXPECT_LE(ticks.size(), 5u) << low << " " << high;
  std::set<std::string> texts;
  for (size_t i = 0; i < ticks.size(); ++i) {
    EXPECT_GE(ticks[i].value, low);
    EXPECT_LE(ticks[i].value, high);
    EXPECT_EQ(std::strtod(ticks[i].text.c_str(), nullptr), ticks[i].value) << ticks[i].text;
    texts.insert(ticks[i].text);
    EXPECT_TRUE(i == 0 || ticks[i - 1].value < ticks[i].value) << low << " " << high;
  }
  EXPECT_EQ(texts.size(), ticks.size());
}

// All neighbours are 1, 2, 2.5 or 5 x 10^n apart, exactly, as they are printed.
void ExpectRound(const std::vector<Tick>& ticks) {
  std::optional<Exact> step;
  for (size_t i = 1; i < ticks.size(); ++i) {
    const Exact here = Difference(ExactOf(ticks[i].text), ExactOf(ticks[i - 1].text));
    const auto digits = static_cast<int>(here.digits);
    EXPECT_TRUE(digits == 1 || digits == 2 || digits == 25 || digits == 5)
        << ticks[i - 1].text << " " << ticks[i].text;
    EXPECT_TRUE(!step || (step->digits == here.digits && step->exponent == here.exponent));
    step = here;
  }
}

std::vector<std::string> Texts(const std::vector<Tick>& ticks) {
  std::vector<std::string> texts;
  for (const Tick& tick : ticks) texts.push_back(tick.text);
  return texts;
}

using Words = std::vector<std::string>;

TEST(Ticks, AreRound) {
  EXPECT_EQ(Texts(TicksIn(0.30000004, 0.8666667)), (Words{"0.4", "0.6", "0.8"}));
  EXPECT_EQ(Texts(TicksIn(0, 1)), (Words{"0", "0.5", "1.0"}));
  EXPECT_EQ(Texts(TicksIn(-30, 70)), (Words{"-25", "0", "25", "50"}));
  EXPECT_EQ(Texts(TicksIn(0, 2.6e-5)), (Words{"0", "1.0e-05", "2.0e-05"}));
  EXPECT_EQ(Texts(TicksIn(1, 800, true)), (Words{"250", "500", "750"}));
  EXPECT_EQ(Texts(TicksIn(1, 4, true)), (Words{"1", "2", "3", "4"}));
  EXPECT_EQ(Texts(TicksIn(7, 8, true)), (Words{"7", "8"}));
  EXPECT_EQ(Texts(TicksIn(9, 9, true)), (Words{"9"}));
  EXPECT_EQ(Texts(TicksIn(0, 3000000, true)), (Words{"0", "1000000", "2000000", "3000000"}));
}

// Any finite range: of any bits, of neighbours, and of numbers of like size.
TEST(Ticks, AreInsideExactAndDistinctForAnyRange) {
  std::mt19937_64 random(7);
  const auto any = [&] {
    for (;;) {
      const uint64_t bits = random();
      double value = 0;
      std::memcpy(&value, &bits, sizeof value);
      if (std::isfinite(value)) return value;
    }
  };
  std::vector<std::pair<double, double>> ranges = {
      {-kMax, kMax}, {0, kMax},         {-kMax, 0},           {kMax / 2, kMax}, {0, kLeast},
      {-kLeast, 0},  {-kLeast, kLeast}, {kLeast, 2 * kLeast}, {1e-300, 1e300},  {-1e-3, 1e-3}};
  for (int i = 0; i < 3000; ++i) {
    const double a = any(), b = any();
    ranges.emplace_back(std::min(a, b), std::max(a, b));
    ranges.emplace_back(a, std::nextafter(a, kMax));
    const double size = std::pow(10.0, static_cast<double>(random() % 20) - 10.0);
    const double c = size * static_cast<double>(random() % 100000) / 1e5;
    ranges.emplace_back(c, c + size * static_cast<double>(random() % 1000 + 1) / 1e3);
  }
  for (const auto& [low, high] : ranges) {
    if (!(low < high)) continue;
    const std::vector<Tick> ticks = TicksIn(low, high);
    ExpectTicks(ticks, low, high);
    const double size = std::max(std::abs(low), std::abs(high));
    if (high / 2 - low / 2 > size * 1e-12) {
      EXPECT_GE(ticks.size(), low < high && size > 1e-300 ? 3u : 2u) << low << " " << high;
      ExpectRound(ticks);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

// Also where all values are the same.
TEST(Ticks, AnAxisHasTwoAndHoldsItsValues) {
  for (const double value : {0.0, 1.0, -1.0, 0.3, 1e-5, -412.5, kMax, -kMax, kLeast, -kLeast, 1e300,
                             1e-300, 9007199254740993.0})
    for (const double other : {value, std::nextafter(value, kMax), 0.0, 0.1}) {
      const double low = std::min(value, other), high = std::max(value, other);
      if (!std::isfinite(high)) continue;
      const Axis axis = ValueAxis(low, high);
      EXPECT_LE(axis.low, low);
      EXPECT_GE(axis.high, high);
      EXPECT_TRUE(std::isfinite(axis.low) && std::isfinite(axis.high)) << value;
      EXPECT_TRUE(low < 0 || axis.low >= 0);
      ExpectTicks(axis.ticks, axis.low, axis.high);
      for (const Tick& tick : axis.ticks) {
        EXPECT_GE(axis.Share(tick.value), 0);
        EXPECT_LE(axis.Share(tick.value), 1);
      }
    }
}

TEST(Ticks, OfStepsAreWhole) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 5000; ++i) {
    const auto first = static_cast<double>(random() >> (random() % 64));
    const auto more = static_cast<double>(random() >> (random() % 64));
    const Axis axis = StepAxis(first, first + more);
    ASSERT_FALSE(axis.ticks.empty()) << first << " " << more;
    for (const Tick& tick : axis.ticks) {
      EXPECT_EQ(tick.value, std::trunc(tick.value));
      EXPECT_TRUE(tick.value >= axis.low && tick.value <= axis.high) << first << " " << more;
    }
    EXPECT_LE(axis.ticks.size(), 7u);
    EXPECT_TRUE(axis.ticks.size() >= 2 || more < 3 || more <= first * 1e-12)
        << first << " " << more;
  }
}

}  // namespace
}  // namespace nxdkit::page
