// The curves of one run or several.
#pragma once

#include <string>

#include "trainer/report/page_runs.h"

namespace nxdkit::trainer {

// One run: a chart for each row of ChartRows; several: one for each metric, with a curve for each
// run. Long curves are smoothed as well, unless a box is not checked. Then the time of a step and
// of its weight sync by phase, for each run. Metrics without a finite value are named at the top.
std::string ChartSection(const PageRuns& runs);

// The metrics of the charts that are left out because they show nothing but straight lines.
std::string ConstantTable(const PageRuns& runs);

}  // namespace nxdkit::trainer
