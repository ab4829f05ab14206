// A run as one page for a browser: no other files, no scripts, no network.
#pragma once

#include <string>

#include "lib/base/error.h"
#include "trainer/report/run_files.h"

namespace nxdkit::trainer {

// Curves of what is watched, where the time of a step went, the last value of everything else,
// samples and the configuration. Whatever is in the run's files is shown as text. What was
// missing or damaged is listed at the top; it is never an error.
std::string HtmlReport(const RunFiles& run);

// HtmlReport of the run in `run_folder` (see ReadRunFiles for its errors).
Result<std::string> WriteHtmlReport(const std::string& run_folder);

}  // namespace nxdkit::trainer
