// Runs as one page for a browser: no other files, no scripts, no network.
#pragma once

#include <string>
#include <vector>

#include "trainer/report/bill.h"
#include "trainer/report/run_files.h"

namespace nxdkit::trainer {

struct ReportedRun {
  RunFiles files;
  Bill bill;  // BillOf
};
inline constexpr size_t kMostReported = 8;  // runs of a page: a colour and a dash for each

// One run or several, at most kMostReported: facts, curves of the important metrics, the time of a
// step by phase, the last values of all others, samples, the configuration and the bill. Several
// runs stand next to each other: curves in one chart for each metric, numbers with their difference
// to the first run, the configuration's keys that differ, and the answers to the same prompts. All
// contents of the runs' files are shown as text. Missing or damaged parts are listed at the top;
// they are never an error.
std::string HtmlReport(const std::vector<ReportedRun>& runs);

}  // namespace nxdkit::trainer
