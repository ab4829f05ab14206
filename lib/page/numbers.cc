#include "lib/page/numbers.h"

#include <fmt/core.h>

#include <cmath>

namespace nxdkit {

std::string ShortNumber(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value) || value == 0) return fmt::format("{}", value);
  if (size < 1e6 && value == std::trunc(value)) return fmt::format("{:.0f}", value);
  if (size < 1e-3) return fmt::format("{:.1e}", value);
  if (size < 10) return fmt::format("{:.4f}", value);
  if (size < 1000) return fmt::format("{:.1f}", value);
  return size < 1e6 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

}  // namespace nxdkit
