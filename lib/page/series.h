// Values over the steps, and what is said of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nxdkit::page {

struct Point {
  int64_t step = 0;
  double value = 0;  // may be NaN or infinite
};

struct Summary {
  double low = 0, high = 0, last = 0;  // of the finite values; last: of all
  int64_t count = 0;                   // of finite values
};
Summary Summarize(const std::vector<Point>& points);

// Two values or more, all of them the same finite number.
bool IsConstant(const std::vector<Point>& points);

// The same steps with the same values, but for the rounding of sums (a billionth); NaN equals NaN.
bool AreEqual(const std::vector<Point>& a, const std::vector<Point>& b);

// Whether the values go up and down often enough for a smoothed curve to show more than they do: at
// a tenth of kSmoothFrom finite values or more.
inline constexpr int64_t kSmoothFrom = 50;
bool IsNoisy(const std::vector<Point>& points);

// The exponential moving average with alpha = 2 / (window + 1), without the pull of its start to 0:
// the first value is the first average. Values that are not finite stay, and count for nothing.
std::vector<Point> Smoothed(const std::vector<Point>& points, size_t window);

}  // namespace nxdkit::page
