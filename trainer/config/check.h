// The rules a configuration must keep, all checked before anything is loaded, all violations
// reported together, each with its numbers and what would be right.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/load.h"
#include "trainer/config/plan.h"

namespace nxdkit::trainer {

struct CheckOptions {
  // Whether files and folders that are named must be there: format_prompt, model_path, ...
  bool files = true;
};

struct ConfigCheck {
  std::vector<ConfigProblem> problems;
  // What the user should know: keys that are set and have no effect, traps of the algorithm.
  std::vector<std::string> notes;
  RunPlan plan;  // exact when there are no problems

  Status status() const;  // ProblemsError when there are any
};

// Words, limits, core allocation, batch arithmetic, and what this trainer does not do. Problems of
// what is not built are kUnsupported, of missing files kNotFound, all others kUsage.
ConfigCheck CheckConfig(const LoadedConfig& loaded, const CheckOptions& options = {});

}  // namespace nxdkit::trainer
