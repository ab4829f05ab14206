#include "trainer/report/page_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "lib/base/text.h"
#include "lib/page/chart.h"
#include "lib/page/html.h"
#include "lib/page/legend.h"
#include "lib/page/numbers.h"
#include "trainer/report/chart_rows.h"
#include "trainer/report/page_times.h"

namespace nxdkit::trainer {
namespace {

using page::Curve;

// "response_length/mean" -> "response_length/"
std::string StemOf(const std::string& mean) { return mean.substr(0, mean.rfind('/') + 1); }

struct Chart {
  std::string title;
  std::string help;
  std::vector<std::string> metrics;
  std::vector<Curve> curves;
};

Curve CurveOf(const PageRun& run, const std::string& metric, bool band) {
  Curve curve{.name = metric, .points = FindSeries(*run.files, metric)};
  if (band) {
    curve.band = StemOf(metric);
    curve.low = FindSeries(*run.files, curve.band + "min");
    curve.high = FindSeries(*run.files, curve.band + "max");
  }
  if (run.label.empty()) return curve;
  curve.name = run.label;
  curve.band = run.label + ", ";
  curve.color = curve.dash = run.place;
  return curve;
}

Chart ChartOf(const PageRuns& runs, const ChartRow& row, const std::vector<std::string>& metrics) {
  Chart chart{std::string(row.title), std::string(row.help), metrics, {}};
  for (const std::string& metric : metrics)
    for (const PageRun& run : runs) {
      Curve curve = CurveOf(run, metric, row.band);
      if (curve.points == nullptr) continue;
      if (runs.size() == 1) curve.color = chart.curves.size();
      chart.curves.push_back(std::move(curve));
    }
  page::TellApart(chart.curves);
  return chart;
}

bool HaveSameCurves(const Chart& a, const Chart& b) {
  return std::ranges::equal(a.curves, b.curves, [](const Curve& x, const Curve& y) {
    return x.name == y.name && page::AreEqual(*x.points, *y.points);
  });
}

// For readers of the screen: "Reward: reward/accuracy, reward/overall", or with several runs
// "Reward: reward/accuracy = reward/overall of first, second".
std::string LabelOf(const Chart& chart, const PageRuns& runs) {
  std::vector<std::string> names;
  for (const Curve& curve : chart.curves) names.push_back(curve.name);
  const std::string curves = fmt::format("{}", fmt::join(names, ", "));
  if (runs.size() == 1) return chart.title + ": " + curves;
  return fmt::format("{}: {} of {}", chart.title, fmt::join(chart.metrics, " = "), curves);
}

// A chart for each metric, but one for metrics that are the same in all runs.
std::vector<Chart> ChartsOfMetrics(const PageRuns& runs, const ChartRow& row,
                                   const std::vector<std::string>& metrics) {
  std::vector<Chart> charts;
  for (const std::string& metric : metrics) {
    Chart chart = ChartOf(runs, row, {metric});
    const auto same = std::ranges::find_if(
        charts, [&](const Chart& earlier) { return HaveSameCurves(earlier, chart); });
    if (same == charts.end())
      charts.push_back(std::move(chart));
    else
      same->metrics.push_back(metric);
  }
  for (Chart& chart : charts)
    chart.help = fmt::format("{}{}{}", fmt::join(chart.metrics, " = "),
                             row.help.empty() ? "" : ": ", row.help);
  return charts;
}

std::vector<Chart> AllCharts(const PageRuns& runs) {
  std::vector<Chart> charts;
  for (const ChartRow& row : ChartRows()) {
    const std::vector<std::string> metrics = MetricsOf(runs, row.names);
    if (metrics.empty()) continue;
    if (runs.size() == 1)
      charts.push_back(ChartOf(runs, row, metrics));
    else
      std::ranges::move(ChartsOfMetrics(runs, row, metrics), std::back_inserter(charts));
  }
  return charts;
}

bool IsFlat(const Chart& chart) {
  return std::ranges::all_of(chart.curves, [](const Curve& curve) {
    return page::IsConstant(*curve.points) && (!curve.low || page::IsConstant(*curve.low)) &&
           (!curve.high || page::IsConstant(*curve.high));
  });
}

// The values that a curve is smoothed over: a twentieth of the longest noisy one's; 0: not at all.
size_t WindowOf(const std::vector<Chart>& charts) {
  int64_t most = 0;
  for (const Chart& chart : charts)
    for (const Curve& curve : chart.curves)
      if (page::IsNoisy(*curve.points)) most = std::max(most, page::Summarize(*curve.points).count);
  return most == 0 ? 0 : static_cast<size_t>(std::max<int64_t>(5, most / 20));
}

// The style shows the smoothed curves while it is checked.
std::string SmoothBox(size_t window) {
  if (window == 0) return "";
  return fmt::format(
      "<input type=\"checkbox\" id=\"smooth\" checked><label for=\"smooth\">Smooth noisy curves of "
      "{} values and more: exponential moving average, effective window {} values; the faint line "
      "has "
      "the values themselves</label>\n",
      page::kSmoothFrom, window);
}

// The metrics that no chart can show.
std::string WithoutValue(const PageRuns& runs) {
  std::vector<std::string> lines;
  for (const PageRun& run : runs) {
    std::vector<std::string> names;
    for (const auto& [name, points] : run.files->metrics.by_name)
      if (!FindSeries(*run.files, name)) names.push_back(name);
    if (!names.empty())
      lines.push_back(
          fmt::format("{}: {}", WithRun("No finite value", run), fmt::join(names, ", ")));
  }
  return page::Problems(lines);
}

bool HasMetrics(const PageRun& run) { return !run.files->metrics.by_name.empty(); }

}  // namespace

std::string ChartSection(const PageRuns& runs) {
  std::vector<Chart> charts = AllCharts(runs);
  std::erase_if(charts, IsFlat);
  const size_t window = WindowOf(charts);
  std::string html;
  for (const Chart& chart : charts)
    html += page::Figure(chart.title, chart.help,
                         page::CurveChart(LabelOf(chart, runs), chart.curves, window),
                         page::Legend(chart.curves));
  html += TimeFigures(runs);
  if (std::ranges::none_of(runs, HasMetrics)) return "<p>No metrics yet.</p>\n";
  const std::string missing = WithoutValue(runs);
  if (!html.empty()) html = SmoothBox(window) + "<div class=\"charts\">\n" + html + "</div>\n";
  if (html.empty() && missing.empty())
    html = "<p>Nothing to draw: all metrics are in the tables below.</p>\n";
  return "<h2>Curves</h2>\n" + missing + html;
}

std::string ConstantTable(const PageRuns& runs) {
  std::vector<PageRow> rows;
  for (const Chart& chart : AllCharts(runs)) {
    if (!IsFlat(chart)) continue;
    for (const std::string& metric : chart.metrics) {
      PageRow row{.name = metric, .cells = {}};
      for (const PageRun& run : runs) {
        const std::vector<Point>* points = FindSeries(*run.files, metric);
        row.cells.push_back(points ? ShortNumber(points->back().value) : "-");
      }
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty()) return "";
  return page::Details(Counted(rows.size(), "constant metric"), RunTable(runs, rows));
}

}  // namespace nxdkit::trainer
