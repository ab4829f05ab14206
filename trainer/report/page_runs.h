// The runs of a page, one or several, and tables with a column for each.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/report/html.h"

namespace nxdkit::trainer {

struct PageRun {
  const RunFiles* files = nullptr;
  const Bill* bill = nullptr;
  size_t place = 0;   // its colour and dash
  std::string label;  // short, unlike the other runs'; "" for the only run
};
using PageRuns = std::vector<PageRun>;
PageRuns PageRunsOf(const std::vector<ReportedRun>& reported);

// "project / experiment", as configured, or else the name of the folder.
std::string NameOf(const RunFiles& run);

// A value of the configuration, strings without quotes; "" if it is not set.
std::string ConfigText(const RunFiles& run, std::string_view path);

// The points of a metric that has a finite value; nullptr otherwise.
const std::vector<Point>* FindSeries(const RunFiles& run, const std::string& name);

// The metrics by these names, or "reward/*" for a group, that some run has; a group is ascending.
std::vector<std::string> MetricsOf(const PageRuns& runs, std::span<const std::string_view> names);

// The line of a run in the charts, and its label; "" for the only run.
std::string RunKey(const PageRun& run);

// "All 5 metrics", or "All 5 metrics of LABEL".
std::string WithRun(std::string_view text, const PageRun& run);

struct PageRow {
  std::string name;                // text
  std::vector<std::string> cells;  // HTML, one for each run
};
// "" without rows.
std::string RunTable(const PageRuns& runs, const std::vector<PageRow>& rows);

}  // namespace nxdkit::trainer
