// The configuration of one run, or of several compared.
#pragma once

#include <string>

#include "trainer/report/page_runs.h"

namespace nxdkit::trainer {

// Several runs: the keys that differ, and how many do not, if all have a
// configuration. "" for one.
std::string DifferentConfig(const PageRuns& runs);
// The other keys, or all keys of the only run; they open on a click or a key.
std::string EqualConfig(const PageRuns& runs);

}  // namespace nxdkit::trainer
