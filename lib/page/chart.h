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
  size_t equal = 1;       // the curves with the same points, including this one
  size_t rank = 0;        // the place among them: each draws its part of a period of dashes
  std::string band{};     // before "max" and "min" in the legend
  std::string same_as{};  // the name of an earlier curve with the same points; "": none
};

// Finds the curves that would hide one another, for same_as, equal and rank.
void TellApart(std::vector<Curve>& curves);

// The <path> of a curve's line: its colour and dash, or its part of a period shared with the curves
// equal to it. `kind`: further classes, each after a space.
std::string LineSvg(const Curve& curve, std::string_view kind, std::string_view path);

// A chart of some curves over the steps, with axes for the ranges of values and steps, and a
// tooltip with the value of each point. Points that are not finite numbers are gaps. Long curves
// are reduced to the lowest and highest finite point of each column of pixels. With a `window`,
// noisy curves (IsNoisy) are also drawn smoothed: class "smooth", over class "raw". "" if there is
// no finite point.
std::string CurveChart(std::string_view label, const std::vector<Curve>& curves, size_t window = 0);

}  // namespace nxdkit::page
