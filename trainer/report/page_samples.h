// Samples: prompts with the answers of one run or several.
#pragma once

#include <string>

#include "trainer/report/page_runs.h"

namespace nxdkit::trainer {

// The samples of the first step and of the last ones; of several runs, of the steps that all have,
// if there are any. Answers to the same prompt stand next to each other. Long texts, and many
// samples of a step, are cut.
std::string SampleSection(const PageRuns& runs);

}  // namespace nxdkit::trainer
