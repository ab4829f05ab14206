#include "lib/page/series.h"

#include <algorithm>
#include <cmath>

namespace nxdkit::page {

Summary Summarize(const std::vector<Point>& points) {
  Summary result;
  for (const Point& point : points) {
    result.last = point.value;
    if (!std::isfinite(point.value)) continue;
    result.low = result.count == 0 ? point.value : std::min(result.low, point.value);
    result.high = result.count == 0 ? point.value : std::max(result.high, point.value);
    ++result.count;
  }
  return result;
}

bool IsConstant(const std::vector<Point>& points) {
  return points.size() > 1 && std::ranges::all_of(points, [&](const Point& point) {
           return std::isfinite(point.value) && point.value == points[0].value;
         });
}

bool AreEqual(const std::vector<Point>& a, const std::vector<Point>& b) {
  return std::ranges::equal(a, b, [](const Point& x, const Point& y) {
    const double size = std::max(std::abs(x.value), std::abs(y.value));
    const bool same = x.value == y.value || std::abs(x.value - y.value) <= size * 1e-9 ||
                      (std::isnan(x.value) && std::isnan(y.value));
    return x.step == y.step && same;
  });
}

bool IsNoisy(const std::vector<Point>& points) {
  int64_t count = 0, turns = 0;
  double last = 0;
  int direction = 0;
  for (const Point& point : points) {
    if (!std::isfinite(point.value)) continue;
    const int now = count == 0 ? 0 : (point.value > last) - (point.value < last);
    if (now != 0 && direction != 0 && now != direction) ++turns;
    if (now != 0) direction = now;
    last = point.value;
    ++count;
  }
  return count >= kSmoothFrom && turns * 10 >= count;
}

std::vector<Point> Smoothed(const std::vector<Point>& points, size_t window) {
  const double alpha = 2 / (static_cast<double>(window) + 1);
  std::vector<Point> smoothed = points;
  double sum = 0, weight = 0;
  for (Point& point : smoothed) {
    if (!std::isfinite(point.value)) continue;
    sum = alpha * point.value + (1 - alpha) * sum;
    weight = alpha + (1 - alpha) * weight;
    point.value = sum / weight;
  }
  return smoothed;
}

}  // namespace nxdkit::page
