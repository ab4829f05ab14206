#include "lib/page/legend.h"

#include <fmt/format.h>

#include "lib/page/frame.h"
#include "lib/page/html.h"
#include "lib/page/numbers.h"

namespace nxdkit::page {
namespace {

std::string Key(std::string_view shape) {
  return fmt::format("<svg class=\"swatch\" viewBox=\"0 0 26 10\" aria-hidden=\"true\">{}</svg>",
                     shape);
}

std::string AreaKey(std::string_view kind, size_t color) {
  return Key(
      fmt::format("<rect class=\"{} f{}\" width=\"26\" height=\"10\"/>", kind, color % kColors));
}

// Breaks after "_" too: the column is narrow.
std::string NarrowName(std::string_view name) {
  std::string html;
  for (const char c : NameHtml(name)) {
    html += c;
    if (c == '_') html += "<wbr>";
  }
  return html;
}

std::string Row(std::string_view key, std::string_view name, std::string_view same_as,
                const std::vector<Point>& points) {
  std::string shown = NarrowName(name);
  if (!same_as.empty()) shown += " <small>= " + NarrowName(same_as) + "</small>";
  return fmt::format("<tr><td title=\"{}\">{}{}</td><td>{}</td></tr>\n", Escape(name), key, shown,
                     fmt::join(SummaryTexts(points), "</td><td>"));
}

}  // namespace

std::string LineKey(const Curve& curve) { return Key(LineSvg(curve, "", "M1 5H25")); }

std::vector<std::string> SummaryTexts(const std::vector<Point>& points) {
  const Summary sum = Summarize(points);
  const bool any = sum.count > 0;
  return {any ? ShortNumber(sum.low) : "-", any ? ShortNumber(sum.high) : "-",
          ShortNumber(sum.last)};
}

std::string Legend(const std::vector<Curve>& curves, bool areas) {
  std::string rows;
  for (const Curve& curve : curves) {
    rows += Row(areas ? AreaKey("area", curve.color) : LineKey(curve), curve.name, curve.same_as,
                *curve.points);
    const std::string band = AreaKey("band", curve.color);
    if (curve.high) rows += Row(band, curve.band + "max", "", *curve.high);
    if (curve.low) rows += Row(band, curve.band + "min", "", *curve.low);
  }
  return "<table class=\"legend\"><tr><td></td><th scope=\"col\">min</th>"
         "<th scope=\"col\">max</th><th scope=\"col\">last</th></tr>\n" +
         rows + "</table>\n";
}

}  // namespace nxdkit::page
