// Curves and stacked areas as inline SVG.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/report/run_files.h"

namespace nxdkit::trainer {

struct Curve {
  std::string name;  // of the legend
  const std::vector<Point>* points = nullptr;
  // A band around the curve, from the one to the other, where both are there; nullptr: none.
  const std::vector<Point>* low = nullptr;
  const std::vector<Point>* high = nullptr;
};

// One chart of some curves over the steps, with the range of values and steps on its axes, and the
// value of a point as its tooltip. Points that are not finite numbers are gaps. Long curves are
// drawn by the lowest and highest point of each column of pixels. "" without any finite point.
std::string CurveChart(const std::vector<Curve>& curves);

// Values on top of one another; a curve without a value at a step counts 0 there.
std::string StackChart(const std::vector<Curve>& curves, std::string_view unit);

// & < > " ' and control characters, so that text is nothing but text.
std::string EscapeHtml(std::string_view text);

}  // namespace nxdkit::trainer
