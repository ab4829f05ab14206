#include "lib/page/stack_chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lib/page/area.h"
#include "lib/page/frame.h"

namespace nxdkit::page {
namespace {

// As many steps as there are pixels to show them.
std::vector<int64_t> StackSteps(const std::vector<Curve>& curves) {
  std::set<int64_t> steps;
  for (const Curve& curve : curves)
    for (const Point& point : *curve.points)
      if (std::isfinite(point.value)) steps.insert(point.step);
  const size_t every = steps.size() / 400 + 1;
  std::vector<int64_t> kept;
  size_t i = 0;
  for (const int64_t step : steps)
    if (i++ % every == 0) kept.push_back(step);
  return kept;
}

double ValueAt(const std::vector<Point>& points, int64_t step) {
  const Point* point = FiniteAt(points, step);
  return point ? std::max(point->value, 0.0) : 0;
}

// The lines between the areas: 0 at the bottom, the sum of all curves at the top.
std::vector<std::vector<Point>> LayersOf(const std::vector<Curve>& curves,
                                         const std::vector<int64_t>& steps) {
  std::vector<std::vector<Point>> layers(curves.size() + 1);
  for (const int64_t step : steps) {
    double total = 0;
    layers[0].push_back({step, 0});
    for (size_t i = 0; i < curves.size(); ++i)
      layers[i + 1].push_back({step, total += ValueAt(*curves[i].points, step)});
  }
  return layers;
}

// May be infinite.
double HeightOf(const std::vector<std::vector<Point>>& layers) {
  double height = 0;
  for (const Point& point : layers.back()) height = std::max(height, point.value);
  return height;
}

std::string Area(const Curve& curve, const std::vector<Point>& upper,
                 const std::vector<Point>& lower, std::string_view unit, size_t tooltips,
                 const Frame& frame) {
  const size_t every = upper.size() / std::max<size_t>(1, tooltips) + 1;
  std::string dots;
  for (size_t k = 0; k < upper.size(); k += every)
    if (const double height = upper[k].value - lower[k].value; height > 0)
      dots += TooltipSvg(frame, fmt::format("{} ({})", curve.name, unit), {upper[k].step, height},
                         upper[k].value);
  return fmt::format(
      "<path class=\"area f{0}\" d=\"{1}\"/><path class=\"line s{0}\" d=\"{1}\"/>"
      "<g class=\"f{0}\">{2}</g>",
      curve.color % kColors, AreaPath(upper, lower, frame), dots);
}

}  // namespace

double StackHeight(const std::vector<Curve>& curves) {
  return HeightOf(LayersOf(curves, StackSteps(curves)));
}

std::string StackChart(std::string_view label, const std::vector<Curve>& curves,
                       std::string_view unit, double top) {
  const std::vector<int64_t> steps = StackSteps(curves);
  if (steps.empty()) return "";
  const auto layers = LayersOf(curves, steps);
  const double height = std::max(top, HeightOf(layers));
  if (!(height > 0 && std::isfinite(height))) return "";
  const Frame frame(StepAxis(static_cast<double>(steps.front()), static_cast<double>(steps.back())),
                    {.low = 0, .high = height, .ticks = TicksIn(0, height)});
  std::string svg = AxesSvg(frame);
  for (size_t i = 0; i < curves.size(); ++i)
    svg += Area(curves[i], layers[i + 1], layers[i], unit, kTooltips / curves.size(), frame);
  return ChartSvg(label, svg);
}

}  // namespace nxdkit::page
