#include "lib/page/frame.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "lib/page/html.h"
#include "lib/page/numbers.h"

namespace nxdkit::page {
namespace {

constexpr double kCharacter = 7.2;  // width of one in the labels of the axes, in wide fonts
constexpr double kLeft = 62;        // of a chart with short labels
constexpr double kGap = 5;          // between a label and the drawing

// A tick at the edge of the drawing: its label must not leave it.
double LabelX(double x, const std::string& text) {
  const double half = kCharacter / 2 * static_cast<double>(text.size());
  return x + half > kWidth ? kWidth - half : x;
}

double LeftOf(const Axis& values) {
  double left = kLeft;
  for (const Tick& tick : values.ticks)
    left = std::max(left, kGap + kCharacter * static_cast<double>(tick.text.size()));
  return left;
}

}  // namespace

Frame::Frame(Axis step_axis, Axis value_axis)
    : steps(std::move(step_axis)), values(std::move(value_axis)), left(LeftOf(values)) {}

std::string AxesSvg(const Frame& frame) {
  std::string svg;
  for (const Tick& tick : frame.values.ticks) {
    const double y = frame.Y(tick.value);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{:.0f}\" y1=\"{:.1f}\" x2=\"{:.0f}\" y2=\"{:.1f}\"/>"
        "<text class=\"axis\" text-anchor=\"end\" x=\"{:.0f}\" y=\"{:.1f}\">{}</text>",
        frame.left, y, kRight, y, frame.left - kGap, y + 4, tick.text);
  }
  svg +=
      fmt::format("<text class=\"axis\" text-anchor=\"end\" x=\"{:.0f}\" y=\"{:.0f}\">step</text>",
                  frame.left - 14, kBottom + 18);
  for (const Tick& tick : frame.steps.ticks) {
    const double x = frame.X(tick.value);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.0f}\" x2=\"{0:.1f}\" y2=\"{2:.0f}\"/>"
        "<text class=\"axis\" text-anchor=\"middle\" x=\"{3:.1f}\" y=\"{4:.0f}\">{5}</text>",
        x, kBottom, kBottom + 4, LabelX(x, tick.text), kBottom + 18, tick.text);
  }
  return svg;
}

std::string ChartSvg(std::string_view label, std::string_view svg) {
  return fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">{}</svg>\n",
                     kWidth, kHeight, Escape(label), svg);
}

std::string TooltipSvg(const Frame& frame, std::string_view name, const Point& point, double at,
                       bool alone) {
  return fmt::format(
      "<circle class=\"dot{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}, step {}: {}</title>"
      "</circle>",
      alone ? " alone" : "", frame.X(point.step), frame.Y(at), alone ? 3 : 5, Escape(name),
      point.step, ShortNumber(point.value));
}

}  // namespace nxdkit::page
