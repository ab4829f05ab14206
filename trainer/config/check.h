// The rules of a configuration, all checked before anything is loaded; all violations are reported
// together, each with its numbers and the correct values.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/load.h"
#include "trainer/config/plan.h"

namespace nxdkit::trainer {

struct CheckOptions {
  // Check that named files and folders exist: format_prompt, model_path, ...
  bool files = true;
};

struct ConfigCheck {
  std::vector<ConfigProblem> problems;
  // Remarks for the user: keys that are set but have no effect, traps of the algorithm.
  std::vector<std::string> notes;
  RunPlan plan;  // exact when there are no problems

  Status status() const;  // ProblemsError when there are any
};

// Checks words, limits, core allocation, batch arithmetic, and features that this trainer lacks.
// Problems with unsupported features are kUnsupported, missing files kNotFound, all others kUsage.
ConfigCheck CheckConfig(const LoadedConfig& loaded, const CheckOptions& options = {});

}  // namespace nxdkit::trainer
