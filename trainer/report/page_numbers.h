// All numbers of a run as tables that open on a click or a key.
#pragma once

#include <string>

#include "trainer/report/page_runs.h"

namespace nxdkit::trainer {

// Every metric with its unit, its lowest, highest and last value.
std::string MetricTable(const PageRun& run);

// A row for each of the last 500 steps: the weights used for generation, and their proof.
std::string SyncTable(const PageRun& run);

}  // namespace nxdkit::trainer
