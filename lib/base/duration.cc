#include "lib/base/duration.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdint>

namespace nxdkit {
namespace {

constexpr double kMost = 100.0 * 366 * 24 * 3600;

}  // namespace

std::string HumanDuration(double seconds) {
  if (!(seconds >= 0 && seconds <= kMost)) return "-";
  if (seconds < 0.995) return fmt::format("{:.2f} s", seconds);
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  const int64_t minutes = (whole + 30) / 60;
  if (minutes < 48 * 60) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  const int64_t hours = (whole + 1800) / 3600;
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

std::string ClockText(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "-";
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace nxdkit
