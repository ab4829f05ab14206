// Where the time of a step goes.
#pragma once

#include <string>
#include <string_view>

#include "trainer/report/page_runs.h"

namespace nxdkit::trainer {

// The time of a step and of its weight sync by phase, as stacks: a figure for each run.
std::string TimeFigures(const PageRuns& runs);

// Parts of the weight sync, which is itself part of timing_s/gen.
bool IsSyncTime(std::string_view name);

}  // namespace nxdkit::trainer
