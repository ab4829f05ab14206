#include "lib/page/stack_chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "lib/page/area.h"
#include "lib/page/frame.h"

namespace nxdkit::page {
namespace {

constexpr size_t kColumns = 400;  // of pixels; more steps would be several in one

double ValueAt(const std::vector<Point>& points, int64_t step) {
  const Point* point = FiniteAt(points, step);
  return point ? std::max(point->value, 0.0) : 0;
}

// All steps with a finite value, ascending, and the height of the stack there.
std::vector<Point> TotalsOf(const std::vector<Curve>& curves) {
  std::set<int64_t> steps;
  for (const Curve& curve : curves)
    for (const Point& point : *curve.points)
      if (std::isfinite(point.value)) steps.insert(point.step);
  std::vector<Point> totals;
  for (const int64_t step : steps) {
    Point& total = totals.emplace_back(Point{step, 0});
    for (const Curve& curve : curves) total.value += ValueAt(*curve.points, step);
  }
  return totals;
}

// The step of the highest finite value, if there is one.
std::optional<int64_t> PeakOf(const std::vector<Point>& points) {
  const Point* peak = nullptr;
  for (const Point& point : points)
    if (std::isfinite(point.value) && (!peak || point.value > peak->value)) peak = &point;
  return peak ? std::optional(peak->step) : std::nullopt;
}

// All steps, or the lowest and the highest stack of each column of pixels, the first step and the
// last, and the peak of each curve.
std::vector<int64_t> StackSteps(const std::vector<Curve>& curves) {
  const std::vector<Point> totals = TotalsOf(curves);
  std::set<int64_t> kept;
  if (totals.size() <= kColumns) {
    for (const Point& total : totals) kept.insert(total.step);
    return {kept.begin(), kept.end()};
  }
  kept = {totals.front().step, totals.back().step};
  const Axis axis =
      StepAxis(static_cast<double>(totals.front().step), static_cast<double>(totals.back().step));
  const auto column_of = [&](const Point& total) {
    return std::floor(kColumns * axis.Share(static_cast<double>(total.step)));
  };
  for (auto begin = totals.begin(); begin != totals.end();) {
    const auto end = std::find_if(begin, totals.end(), [&](const Point& total) {
      return column_of(total) != column_of(*begin);
    });
    const auto [low, high] = std::ranges::minmax_element(begin, end, {}, &Point::value);
    kept.insert({low->step, high->step});
    begin = end;
  }
  for (const Curve& curve : curves)
    if (const std::optional<int64_t> peak = PeakOf(*curve.points)) kept.insert(*peak);
  return {kept.begin(), kept.end()};
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

// The area of a curve, and tooltips: of so many steps in a row, for the one with the highest value.
std::string Area(const Curve& curve, const std::vector<Point>& upper,
                 const std::vector<Point>& lower, std::string_view unit, size_t tooltips,
                 const Frame& frame) {
  const size_t every = upper.size() / std::max<size_t>(1, tooltips) + 1;
  const auto height = [&](size_t k) { return upper[k].value - lower[k].value; };
  std::string dots;
  for (size_t begin = 0; begin < upper.size(); begin += every) {
    size_t best = begin;
    for (size_t k = begin; k < std::min(begin + every, upper.size()); ++k)
      if (height(k) > height(best)) best = k;
    if (height(best) > 0)
      dots += TooltipSvg(frame, fmt::format("{} ({})", curve.name, unit),
                         {upper[best].step, height(best)}, upper[best].value);
  }
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
