// A run as one page for a browser: no other files, no scripts, no network.
#pragma once

#include <string>

#include "trainer/report/bill.h"
#include "trainer/report/run_files.h"

namespace nxdkit::trainer {

// Curves of what is watched, where the time of a step went, the last value of everything else,
// samples, the configuration and the bill (BillOf). Whatever is in the run's files is shown as
// text. What was missing or damaged is listed at the top; it is never an error.
std::string HtmlReport(const RunFiles& run, const Bill& bill);

}  // namespace nxdkit::trainer
