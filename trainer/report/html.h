// A run as one page for a browser: no other files, no scripts, no network.
#pragma once

#include <string>

#include "trainer/report/bill.h"
#include "trainer/report/run_files.h"

namespace nxdkit::trainer {

// Curves of the important metrics, the time of a step by phase, the last values of all others,
// samples, the configuration and the bill (BillOf). All contents of the run's files are shown as
// text. Missing or damaged parts are listed at the top; they are never an error.
std::string HtmlReport(const RunFiles& run, const Bill& bill);

}  // namespace nxdkit::trainer
