#include "trainer/config/check.h"

#include "lib/system/folders.h"
#include "trainer/config/check_algorithm.h"
#include "trainer/config/check_batch.h"
#include "trainer/config/check_bundle.h"
#include "trainer/config/check_cores.h"
#include "trainer/config/check_files.h"
#include "trainer/config/check_reward.h"
#include "trainer/config/check_table.h"

namespace nxdkit::trainer {

Status ConfigCheck::status() const {
  return problems.empty() ? OkStatus() : Status(ProblemsError(problems));
}

ConfigCheck CheckConfig(const LoadedConfig& loaded, const CheckOptions& options) {
  Checker check(loaded);
  ConfigCheck result;
  const bool in_limits = CheckTable(check);
  if (in_limits) {
    result.plan = MakeRunPlan(loaded.config);
    CheckCores(check, result.plan);
    CheckBatches(check, result.plan);
  }
  CheckAlgorithm(check);
  CheckReward(check);
  if (options.files) CheckFiles(check);
  result.problems = std::move(check.problems);
  const std::optional<std::string>& bundle = loaded.config.worker.rollout.model_path;
  if (in_limits && options.files && bundle && KindOf(*bundle) == PathKind::kFolder)
    for (ConfigProblem& problem : CheckBundle(loaded, *bundle))
      result.problems.push_back(std::move(problem));
  result.notes = std::move(check.notes);
  return result;
}

}  // namespace nxdkit::trainer
