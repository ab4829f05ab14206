#include "lib/page/area.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace nxdkit::page {

std::string AreaPath(const std::vector<Point>& upper, const std::vector<Point>& lower,
                     const Frame& frame) {
  std::string path;
  for (const Point& point : upper)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", frame.X(point.step),
                        frame.Y(point.value));
  for (size_t i = lower.size(); i-- > 0;)
    path += fmt::format("L{:.1f} {:.1f}", frame.X(lower[i].step), frame.Y(lower[i].value));
  return path + "Z";
}

const Point* FiniteAt(const std::vector<Point>& points, int64_t step) {
  const auto at = std::ranges::lower_bound(points, step, {}, &Point::step);
  const bool there = at != points.end() && at->step == step && std::isfinite(at->value);
  return there ? &*at : nullptr;
}

}  // namespace nxdkit::page
