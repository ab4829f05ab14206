#include "trainer/config/check.h"

#include <fmt/core.h>

#include "formats/hf/hub_cache.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "trainer/config/check_algorithm.h"
#include "trainer/config/check_bundle.h"
#include "trainer/config/check_engine.h"
#include "trainer/config/check_path.h"
#include "trainer/config/check_plan.h"
#include "trainer/config/check_reward.h"
#include "trainer/config/check_table.h"
#include "trainer/config/key_table.h"

namespace nxdkit::trainer {
namespace {

// "PATH", "PATH@SPLIT", or "exec:COMMAND", which is tried when it is run.
void CheckData(Checker& check, std::string_view key, const std::string& source) {
  if (source.empty())
    return check.Problem(key, "no data is named", "set it to PATH, PATH@SPLIT or exec:COMMAND");
  if (source.starts_with("exec:")) return;
  const std::string path = source.substr(0, source.find('@'));
  if (hf::IsHubName(path)) {
    const auto found = hf::FindInHubCache(hf::HubKind::kDataset, path);
    if (!found.ok())
      check.Problem(key, found.error().ToString(), found.error().hint(), Errc::kNotFound);
  } else if (const Result<bool> there = IsThere(path); !there.ok()) {
    check.Problem(key, EscapeControl(there.error().ToString()), "", there.error().code());
  } else if (!*there) {
    check.Problem(key, fmt::format("there is no file or folder {}", EscapeControl(path)), "",
                  Errc::kNotFound);
  }
}

// A folder, or the name of a model that the hub's cache has.
void CheckModelPath(Checker& check, std::string_view key, const std::optional<std::string>& path) {
  if (!path || !hf::IsHubName(*path)) return CheckPath(check, key, path, PathKind::kFolder);
  const auto found = hf::FindInHubCache(hf::HubKind::kModel, *path);
  if (!found.ok())
    check.Problem(key, found.error().ToString(), found.error().hint(), Errc::kNotFound);
}

void CheckModelFolder(Checker& check, std::string_view section, const ModelSection& model) {
  const std::string key = fmt::format("{}.model_path", section);
  if (!model.model_path)
    return check.Problem(key, "no model is named", "set it to a Hugging Face folder");
  CheckModelPath(check, key, model.model_path);
  if (model.tokenizer_path != model.model_path)
    CheckModelPath(check, fmt::format("{}.tokenizer_path", section), model.tokenizer_path);
}

// Whether the files and folders that are named are there.
void CheckFiles(Checker& check) {
  Config config = check.config();
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.limit != KeyLimit::kFile && key.limit != KeyLimit::kFolder) continue;
    const auto* path = std::get<std::optional<std::string>*>(key.slot(config));
    CheckPath(check, key.path, *path,
              key.limit == KeyLimit::kFile ? PathKind::kFile : PathKind::kFolder);
  }
  CheckData(check, "data.train_files", config.data.train_files);
  if (!config.data.val_files.empty()) CheckData(check, "data.val_files", config.data.val_files);
  CheckModelFolder(check, "worker.actor.model", config.worker.actor.model);
  if (NeedsCritic(config))
    CheckModelFolder(check, "worker.critic.model", config.worker.critic.model);
  CheckPath(check, "worker.rollout.model_path", config.worker.rollout.model_path,
            PathKind::kFolder);
}

}  // namespace

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
  if (const auto& date = check.config().data.template_date; date && !MidnightOf(*date))
    check.Problem("data.template_date", fmt::format("{} is not a day", EscapeControl(*date)),
                  "such as: 2026-11-23");
  CheckReward(check);
  if (in_limits) CheckEngine(check);
  if (options.files) CheckFiles(check);
  result.problems = std::move(check.problems);
  const std::optional<std::string>& bundle = loaded.config.worker.rollout.model_path;
  // Whatever else is at that path has been told above.
  if (in_limits && options.files && bundle && KindForHint(*bundle) == PathKind::kFolder)
    for (ConfigProblem& problem : CheckBundle(loaded, *bundle))
      result.problems.push_back(std::move(problem));
  result.notes = std::move(check.notes);
  return result;
}

}  // namespace nxdkit::trainer
