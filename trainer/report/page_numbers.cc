#include "trainer/report/page_numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
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
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, points] : all) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {page::NameHtml(name), std::string(UnitOf(name)), std::to_string(points.size())};
    std::ranges::move(page::SummaryTexts(points), std::back_inserter(row));
  }
  return page::Details(WithRun(fmt::format("All {}", Counted(all.size(), "metric")), run),
                       page::Table({"name", "unit", "values", "min", "max", "last"}, rows));
}

std::string SyncTable(const PageRun& run) {
  const std::vector<Point>* syncs = FindSeries(*run.files, "sync/serial");
  if (!syncs) return "";
  std::vector<std::string> parts;
  for (const auto& [name, points] : run.files->metrics.by_name)
    if (IsSyncTime(name)) parts.push_back(name);
  std::vector<std::string> headings = {"step", "version", "proved", "not covered", "gap"};
  for (const std::string& part : parts)
    headings.push_back(part.substr(part.find('_', 8) + 1) + ", s");
  std::vector<std::vector<std::string>> rows;
  const size_t shown = std::min(syncs->size(), kMostSyncs);
  for (const Point& sync : std::span(*syncs).last(shown)) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {std::to_string(sync.step), fmt::format("{}", sync.value)};
    for (const char* name : {"sync/proved", "sync/not_covered", "rollout/log_prob_gap_mean"})
      row.push_back(ValueAt(*run.files, name, sync.step));
    for (const std::string& part : parts) row.push_back(ValueAt(*run.files, part, sync.step));
  }
  const std::string count = Counted(syncs->size(), "weight sync");
  const bool all = shown == syncs->size();
  return page::Details(WithRun(all ? count : fmt::format("The last {} of {}", shown, count), run),
                       page::Table(headings, rows));
}

}  // namespace nxdkit::trainer
