#include "lib/page/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "lib/page/html.h"
#include "lib/page/numbers.h"

namespace nxdkit::page {
namespace {

// Sizes of the drawing, in its own units.
constexpr double kWidth = 440, kHeight = 176;
constexpr double kLeft = 56, kRight = 430, kTop = 8, kBottom = 152;
constexpr size_t kColors = 8;
constexpr size_t kTooltips = 150;  // per curve at most
constexpr size_t kEnough = 800;    // points of a curve: more would be several per pixel

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void Add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return !(low <= high); }
  // 0 at low, 1 at high; in halves, because the range of finite numbers may be infinite.
  double Share(double value) const {
    return high > low ? (value / 2 - low / 2) / (high / 2 - low / 2) : 0.5;
  }
};

struct Frame {
  Range steps;
  Range values;
  double X(int64_t step) const {
    return kLeft + (kRight - kLeft) * steps.Share(static_cast<double>(step));
  }
  double Y(double value) const { return kBottom - (kBottom - kTop) * values.Share(value); }
};

// Adds a little room above and below, though not beyond 0, and never leaves an empty range.
void Widen(Range& range) {
  const double size = std::max(std::abs(range.low), std::abs(range.high));
  const double room =
      range.high > range.low ? (range.high / 2 - range.low / 2) * 0.1 : (size > 0 ? size * 0.1 : 1);
  constexpr double kMost = std::numeric_limits<double>::max();
  range.low = std::max(range.low - room, range.low >= 0 ? 0 : -kMost);
  range.high = std::min(range.high + room, range.high <= 0 && range.low < 0 ? 0 : kMost);
}

std::string Axes(const Frame& frame) {
  std::string svg;
  for (const double share : {0.0, 0.5, 1.0}) {
    double value = frame.values.low * (1 - share) + frame.values.high * share;
    if (std::abs(value) < frame.values.high * 1e-3 && share == 0.5) value = 0;  // and not 3e-17
    const double y = kBottom - (kBottom - kTop) * share;
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text class=\"axis\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
        kLeft, y, kRight, y, kLeft - 5, y + 4, ShortNumber(value));
  }
  const double first = frame.steps.low, last = frame.steps.high;
  svg += fmt::format("<text class=\"axis\" x=\"{:.1f}\" y=\"{:.1f}\">step {:.0f}</text>", kLeft,
                     kBottom + 18, first);
  if (last > first)
    svg += fmt::format(
        "<text class=\"axis\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{:.0f}</text>", kRight,
        kBottom + 18, last);
  return svg;
}

std::string Svg(std::string_view content) {
  return fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\">{}</svg>\n", kWidth, kHeight,
                     content);
}

// `alone`: no line leads to the point, so it is drawn visibly.
std::string Tooltip(const Frame& frame, const std::string& name, const Point& point, double at,
                    bool alone = false) {
  return fmt::format(
      "<circle class=\"dot{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}, step {}: {}</title>"
      "</circle>",
      alone ? " alone" : "", frame.X(point.step), frame.Y(at), alone ? 3 : 5, Escape(name),
      point.step, ShortNumber(point.value));
}

// All points, or of each column of pixels the lowest and the highest, in the order of steps.
std::vector<Point> Thinned(const std::vector<Point>& points, const Frame& frame) {
  if (points.size() <= kEnough) return points;
  std::vector<Point> kept;
  for (size_t begin = 0; begin < points.size();) {
    const double column = std::floor(frame.X(points[begin].step));
    size_t end = begin;
    while (end < points.size() && std::floor(frame.X(points[end].step)) == column) ++end;
    const auto column_points = std::span(points).subspan(begin, end - begin);
    auto low = std::ranges::min_element(column_points, {}, &Point::value);
    auto high = std::ranges::max_element(column_points, {}, &Point::value);
    if (high < low) std::swap(low, high);
    kept.push_back(*low);
    if (low != high) kept.push_back(*high);
    begin = end;
  }
  return kept;
}

std::string Line(const Curve& curve, size_t slot, const Frame& frame) {
  std::string path;
  std::string dots;
  const std::vector<Point> points = Thinned(*curve.points, frame);
  const auto finite = [&](size_t i) { return i < points.size() && std::isfinite(points[i].value); };
  const size_t every = points.size() / kTooltips + 1;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!finite(i)) continue;
    const Point& point = points[i];
    const bool begins = !finite(i - 1);  // also where i is 0
    path += fmt::format("{}{:.1f} {:.1f}", begins ? "M" : "L", frame.X(point.step),
                        frame.Y(point.value));
    const bool alone = begins && !finite(i + 1);
    if (alone || i % every == 0 || i + 1 == points.size())
      dots += Tooltip(frame, curve.name, point, point.value, alone);
  }
  return fmt::format("<path class=\"line s{0}\" d=\"{1}\"/><g class=\"f{0}\">{2}</g>", slot, path,
                     dots);
}

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

// In each column of pixels the lowest and the highest; a gap where either is missing ends it.
std::string Band(const Curve& curve, size_t slot, const Frame& frame) {
  std::string paths;
  std::vector<Point> upper, lower;
  const auto finish = [&] {
    if (!upper.empty()) paths += AreaPath(upper, lower, frame);
    upper.clear();
    lower.clear();
  };
  for (const Point& high : *curve.high) {
    const Point* low = FiniteAt(*curve.low, high.step);
    if (!low || !std::isfinite(high.value)) {
      finish();
    } else if (!upper.empty() && curve.high->size() > kEnough &&
               std::floor(frame.X(upper.back().step)) == std::floor(frame.X(high.step))) {
      upper.back().value = std::max(upper.back().value, high.value);
      lower.back().value = std::min(lower.back().value, low->value);
    } else {
      upper.push_back(high);
      lower.push_back(*low);
    }
  }
  finish();
  return fmt::format("<path class=\"band f{}\" d=\"{}\"/>", slot, paths);
}

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

}  // namespace

std::string CurveChart(const std::vector<Curve>& curves) {
  Frame frame;
  for (const Curve& curve : curves)
    for (const std::vector<Point>* points : {curve.points, curve.low, curve.high})
      for (size_t i = 0; points && i < points->size(); ++i)
        if (const Point& point = (*points)[i]; std::isfinite(point.value)) {
          frame.values.Add(point.value);
          frame.steps.Add(static_cast<double>(point.step));
        }
  if (frame.values.empty()) return "";
  Widen(frame.values);
  std::string svg = Axes(frame);
  for (size_t i = 0; i < curves.size(); ++i)
    if (curves[i].low && curves[i].high) svg += Band(curves[i], i % kColors, frame);
  for (size_t i = 0; i < curves.size(); ++i) svg += Line(curves[i], i % kColors, frame);
  return Svg(svg);
}

std::string StackChart(const std::vector<Curve>& curves, std::string_view unit) {
  const std::vector<int64_t> steps = StackSteps(curves);
  if (steps.empty()) return "";
  std::vector<std::vector<Point>> layers(curves.size() + 1);
  for (const int64_t step : steps) {
    double total = 0;
    layers[0].push_back({step, 0});
    for (size_t i = 0; i < curves.size(); ++i)
      layers[i + 1].push_back({step, total += ValueAt(*curves[i].points, step)});
  }
  Frame frame;
  frame.values.Add(0);
  for (const Point& point : layers.back()) frame.values.Add(point.value);
  if (!(frame.values.high > 0 && std::isfinite(frame.values.high))) return "";
  frame.steps.Add(static_cast<double>(steps.front()));
  frame.steps.Add(static_cast<double>(steps.back()));
  std::string svg = Axes(frame);
  const size_t every = steps.size() / kTooltips + 1;
  for (size_t i = 0; i < curves.size(); ++i) {
    std::string dots;
    for (size_t k = 0; k < steps.size(); k += every) {
      const double height = layers[i + 1][k].value - layers[i][k].value;
      if (height > 0)
        dots += Tooltip(frame, fmt::format("{} ({})", curves[i].name, unit), {steps[k], height},
                        layers[i + 1][k].value);
    }
    svg += fmt::format(
        "<path class=\"area f{0}\" d=\"{1}\"/><path class=\"line s{0}\" d=\"{1}\"/>"
        "<g class=\"f{0}\">{2}</g>",
        i % kColors, AreaPath(layers[i + 1], layers[i], frame), dots);
  }
  return Svg(svg);
}

}  // namespace nxdkit::page
