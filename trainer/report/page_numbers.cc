#include "trainer/report/page_numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "lib/base/text.h"
#include "lib/page/html.h"
#include "lib/page/legend.h"
#include "lib/page/numbers.h"
#include "trainer/report/chart_rows.h"
#include "trainer/report/page_times.h"

namespace nxdkit::trainer {
namespace {

std::string ValueAt(const RunFiles& run, const std::string& name, int64_t step) {
  const std::vector<Point>* points = FindSeries(run, name);
  if (points == nullptr) return "-";
  const auto at = std::ranges::lower_bound(*points, step, {}, &Point::step);
  return at != points->end() && at->step == step ? ShortNumber(at->value) : "-";
}

constexpr size_t kMostSyncs = 500;  // rows, the last ones

}  // namespace

std::string MetricTable(const PageRun& run) {
  const auto& all = run.files->metrics.by_name;
  if (all.empty()) return "";
  std::string rows;
  for (const auto& [name, points] : all)
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td>{}</tr>\n", page::NameHtml(name),
                        UnitOf(name), points.size(), page::SummaryCells(points));
  return page::Details(
      WithRun(fmt::format("All {}", Counted(all.size(), "metric")), run),
      "<table class=\"data\"><tr><th>name</th><th>unit</th><th>values</th><th>min</th>"
      "<th>max</th><th>last</th></tr>\n" +
          rows + "</table>\n");
}

std::string SyncTable(const PageRun& run) {
  const std::vector<Point>* syncs = FindSeries(*run.files, "sync/serial");
  if (!syncs) return "";
  std::vector<std::string> parts;
  for (const auto& [name, points] : run.files->metrics.by_name)
    if (IsSyncTime(name)) parts.push_back(name);
  std::string head = "<th>step</th><th>version</th><th>proved</th><th>not covered</th><th>gap</th>";
  for (const std::string& part : parts)
    head += fmt::format("<th>{}, s</th>", page::Escape(part.substr(part.find('_', 8) + 1)));
  std::string rows;
  const size_t shown = std::min(syncs->size(), kMostSyncs);
  for (const Point& sync : std::span(*syncs).last(shown)) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td>", sync.step, sync.value);
    for (const char* name : {"sync/proved", "sync/not_covered", "rollout/log_prob_gap_mean"})
      rows += fmt::format("<td>{}</td>", ValueAt(*run.files, name, sync.step));
    for (const std::string& part : parts)
      rows += fmt::format("<td>{}</td>", ValueAt(*run.files, part, sync.step));
    rows += "</tr>\n";
  }
  const std::string count = Counted(syncs->size(), "weight sync");
  const bool all = shown == syncs->size();
  return page::Details(WithRun(all ? count : fmt::format("The last {} of {}", shown, count), run),
                       "<table class=\"data\"><tr>" + head + "</tr>\n" + rows + "</table>\n");
}

}  // namespace nxdkit::trainer
