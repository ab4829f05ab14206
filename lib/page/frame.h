// The frame of a chart: its size, its axes, and the places of values in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/page/series.h"
#include "lib/page/ticks.h"

namespace nxdkit::page {

// Sizes of the drawing, in its own units.
inline constexpr double kWidth = 440, kHeight = 176;
inline constexpr double kRight = 430, kTop = 8, kBottom = 152;
inline constexpr size_t kColors = 8;
inline constexpr size_t kTooltips = 150;  // per chart, shared by its curves

struct Frame {
  Frame(Axis step_axis, Axis value_axis);

  Axis steps;
  Axis values;
  double left;  // more than in other charts if a label of the values is long
  double X(double step) const { return left + (kRight - left) * steps.Share(step); }
  double X(int64_t step) const { return X(static_cast<double>(step)); }
  double Y(double value) const { return kBottom - (kBottom - kTop) * values.Share(value); }
};

std::string AxesSvg(const Frame& frame);
// A drawing of a chart's size; `label` is text, for readers of the screen.
std::string ChartSvg(std::string_view label, std::string_view svg);
// A point whose value is shown under the pointer. `alone`: no line leads to it, so it is visible.
std::string TooltipSvg(const Frame& frame, std::string_view name, const Point& point, double at,
                       bool alone = false);

}  // namespace nxdkit::page
