#include "trainer/config/check.h"

#include "trainer/config/checker.h"

namespace nxdkit::trainer {

Status ConfigCheck::status() const {
  return problems.empty() ? OkStatus() : Status(ProblemsError(problems));
}

ConfigCheck CheckConfig(const LoadedConfig& loaded, const CheckOptions& options) {
  Checker check(loaded);
  ConfigCheck result;
  if (CheckTable(check)) {
    result.plan = MakeRunPlan(loaded.config);
    CheckCores(check, result.plan);
    CheckBatches(check, result.plan);
  }
  CheckAlgorithm(check);
  CheckReward(check);
  if (options.files) CheckFiles(check);
  result.problems = std::move(check.problems);
  result.notes = std::move(check.notes);
  return result;
}

}  // namespace nxdkit::trainer
