// The top of the page: name, facts, the most important numbers, and the bill.
#pragma once

#include <string>

#include "trainer/report/page_runs.h"

namespace nxdkit::trainer {

std::string TitleOf(const PageRuns& runs);  // text
std::string ProblemList(const PageRuns& runs);

// Model, machine, whether the run has finished, version of nxdkit, times of the first and the last
// line of the log: those that the runs' files hold.
std::string FactTable(const PageRuns& runs);

// Cards of the only run, or a table with the differences to the first one.
std::string CardSection(const PageRuns& runs);

std::string CostTable(const PageRuns& runs);

}  // namespace nxdkit::trainer
