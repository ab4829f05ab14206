// Curves and stacked areas as inline SVG.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nxdkit::page {

struct Point {
  int64_t step = 0;
  double value = 0;  // may be NaN or infinite
};

struct Curve {
  std::string name;  // of the legend
  const std::vector<Point>* points = nullptr;
  // A band around the curve, between these two where both exist; nullptr: none.
  const std::vector<Point>* low = nullptr;
  const std::vector<Point>* high = nullptr;
};

// One chart of some curves over the steps, with axes for the ranges of values and steps, and a
// tooltip with the value of each point. Points that are not finite numbers are gaps. Long curves
// are reduced to the lowest and highest point of each column of pixels. "" if there is no finite
// point.
std::string CurveChart(const std::vector<Curve>& curves);

// Stacked values; a curve without a value at a step counts as 0 there.
std::string StackChart(const std::vector<Curve>& curves, std::string_view unit);

}  // namespace nxdkit::page
