// Curves as inline SVG.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/page/series.h"

namespace nxdkit::page {

struct Curve {
  std::string name;  // of the legend
  const std::vector<Point>* points = nullptr;
  // A band around the curve, between these two where both exist; nullptr: none.
  const std::vector<Point>* low = nullptr;
  const std::vector<Point>* high = nullptr;
  size_t color = 0;       // of eight
  size_t dash = 0;        // of eight; 0: a solid line
  std::string band{};     // before "max" and "min" in the legend
  std::string same_as{};  // the name of an earlier curve with the same points; "": none
};

// Gives a curve that would hide an earlier one its name and another dash.
void TellApart(std::vector<Curve>& curves);

// A chart of some curves over the steps, with axes for the ranges of values and steps, and a
// tooltip with the value of each point. Points that are not finite numbers are gaps. Long curves
// are reduced to the lowest and highest point of each column of pixels. With a `window`, noisy
// curves (IsNoisy) are also drawn smoothed: class "smooth", over class "raw". "" if there is no
// finite point.
std::string CurveChart(std::string_view label, const std::vector<Curve>& curves, size_t window = 0);

}  // namespace nxdkit::page
