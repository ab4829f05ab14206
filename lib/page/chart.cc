#include "lib/page/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "lib/page/area.h"
#include "lib/page/frame.h"

namespace nxdkit::page {
namespace {

constexpr size_t kEnough = 800;  // points of a curve: more would be several per pixel
constexpr size_t kSmooth = 200;  // points of a smoothed curve

using Points = std::span<const Point>;

// Calls each(points) for every column of pixels, or for every point of a short curve.
template <typename Each>
void ForEachColumn(Points points, const Frame& frame, const Each& each) {
  const bool is_short = points.size() <= kEnough;
  for (size_t begin = 0; begin < points.size();) {
    const double column = std::floor(frame.X(points[begin].step));
    size_t end = begin + 1;
    while (!is_short && end < points.size() && std::floor(frame.X(points[end].step)) == column)
      ++end;
    each(points.subspan(begin, end - begin));
    begin = end;
  }
}

// All points, or the lowest and the highest of each column of pixels, in the order of steps. Points
// that are not finite stay where their column has no others.
std::vector<Point> Thinned(const std::vector<Point>& points, const Frame& frame) {
  std::vector<Point> kept;
  ForEachColumn(points, frame, [&](Points column) {
    const Point *low = nullptr, *high = nullptr;
    for (const Point& point : column) {
      if (!std::isfinite(point.value)) continue;
      if (!low || point.value < low->value) low = &point;
      if (!high || point.value > high->value) high = &point;
    }
    if (!low) low = high = &column.front();
    kept.push_back(*std::min(low, high));
    if (low != high) kept.push_back(*std::max(low, high));
  });
  return kept;
}

// The first finite point of every so many, or a gap if there is none; and the last point.
std::vector<Point> Sparse(Points points) {
  const size_t every = points.size() / kSmooth + 1;
  std::vector<Point> kept;
  for (size_t begin = 0; begin < points.size(); begin += every) {
    const Points part = points.subspan(begin, std::min(every, points.size() - begin));
    const auto finite =
        std::ranges::find_if(part, [](const Point& point) { return std::isfinite(point.value); });
    kept.push_back(finite == part.end() ? part.front() : *finite);
  }
  if (!points.empty() && kept.back().step != points.back().step) kept.push_back(points.back());
  return kept;
}

// The line through all finite points, interrupted at others.
std::string LinePath(const std::vector<Point>& points, const Frame& frame) {
  std::string path;
  bool begins = true;
  for (const Point& point : points) {
    const bool finite = std::isfinite(point.value);
    if (finite)
      path += fmt::format("{}{:.1f} {:.1f}", begins ? "M" : "L", frame.X(point.step),
                          frame.Y(point.value));
    begins = !finite;
  }
  return path;
}

// Some points of a line, and all to which no line leads.
std::string Tooltips(const Curve& curve, const std::vector<Point>& points, size_t most,
                     const Frame& frame) {
  const auto finite = [&](size_t i) { return i < points.size() && std::isfinite(points[i].value); };
  const size_t every = points.size() / std::max<size_t>(1, most) + 1;
  std::string dots;
  for (size_t i = 0; i < points.size(); ++i) {
    const bool alone = !finite(i - 1) && !finite(i + 1);  // i - 1 is out of range where i is 0
    if (finite(i) && (alone || i % every == 0 || i + 1 == points.size()))
      dots += TooltipSvg(frame, curve.name, points[i], points[i].value, alone);
  }
  return dots;
}

std::string Line(const Curve& curve, size_t tooltips, size_t window, const Frame& frame) {
  const std::vector<Point> points = Thinned(*curve.points, frame);
  const bool smooth = window > 1 && IsNoisy(*curve.points);
  std::string svg = LineSvg(curve, smooth ? " raw" : "", LinePath(points, frame));
  if (smooth)
    svg += LineSvg(curve, " smooth", LinePath(Sparse(Smoothed(*curve.points, window)), frame));
  return svg + fmt::format("<g class=\"f{}\">{}</g>", curve.color % kColors,
                           Tooltips(curve, points, tooltips, frame));
}

// The lowest and the highest value in each column of pixels; a column without both is a gap.
std::string Band(const Curve& curve, const Frame& frame) {
  std::string paths;
  std::vector<Point> upper, lower;
  const auto finish = [&] {
    if (!upper.empty()) paths += AreaPath(upper, lower, frame);
    upper.clear();
    lower.clear();
  };
  ForEachColumn(*curve.high, frame, [&](Points column) {
    bool any = false;
    for (const Point& high : column) {
      const Point* low = FiniteAt(*curve.low, high.step);
      if (!low || !std::isfinite(high.value)) continue;
      if (!std::exchange(any, true)) {
        upper.push_back(high);
        lower.push_back(*low);
      }
      upper.back().value = std::max(upper.back().value, high.value);
      lower.back().value = std::min(lower.back().value, low->value);
    }
    if (!any) finish();
  });
  finish();
  return fmt::format("<path class=\"band f{}\" d=\"{}\"/>", curve.color % kColors, paths);
}

// The ranges of all points of the curves; empty (low > high) without a finite one.
struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void Add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

}  // namespace

void TellApart(std::vector<Curve>& curves) {
  std::vector<size_t> first(curves.size());  // the first curve equal to each
  for (size_t i = 0; i < curves.size(); ++i) {
    while (first[i] < i && !AreEqual(*curves[i].points, *curves[first[i]].points)) ++first[i];
    first[i] = first[first[i]];
    curves[i].rank = static_cast<size_t>(std::ranges::count(std::span(first).first(i), first[i]));
    if (first[i] < i) curves[i].same_as = curves[first[i]].name;
  }
  for (size_t i = 0; i < curves.size(); ++i)
    curves[i].equal = static_cast<size_t>(std::ranges::count(first, first[i]));
}

std::string LineSvg(const Curve& curve, std::string_view kind, std::string_view path) {
  constexpr double kDash = 8, kPeriod = 24;  // the most; the period fits into a key of the legend
  std::string dash = curve.dash == 0 ? "" : fmt::format(" d{}", curve.dash % kColors);
  std::string dashes;
  if (curve.equal > 1) {
    const auto count = static_cast<double>(curve.equal);
    const double length = std::min(kDash, kPeriod / count);
    dash = " shared";
    dashes = fmt::format(" stroke-dasharray=\"{:.2f} {:.2f}\" stroke-dashoffset=\"-{:.2f}\"",
                         length, length * (count - 1), length * static_cast<double>(curve.rank));
  }
  return fmt::format("<path class=\"line s{}{}{}\"{} d=\"{}\"/>", curve.color % kColors, dash, kind,
                     dashes, path);
}

std::string CurveChart(std::string_view label, const std::vector<Curve>& curves, size_t window) {
  Extent values, steps;
  for (const Curve& curve : curves)
    for (const std::vector<Point>* points : {curve.points, curve.low, curve.high})
      for (size_t i = 0; points && i < points->size(); ++i)
        if (const Point& point = (*points)[i]; std::isfinite(point.value)) {
          values.Add(point.value);
          steps.Add(static_cast<double>(point.step));
        }
  if (values.low > values.high) return "";
  const Frame frame(StepAxis(steps.low, steps.high), ValueAxis(values.low, values.high));
  std::string svg = AxesSvg(frame);
  for (const Curve& curve : curves)
    if (curve.low && curve.high) svg += Band(curve, frame);
  for (const Curve& curve : curves) svg += Line(curve, kTooltips / curves.size(), window, frame);
  return ChartSvg(label, svg);
}

}  // namespace nxdkit::page
