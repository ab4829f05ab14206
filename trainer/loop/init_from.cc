#include "trainer/loop/init_from.h"

#include <fmt/core.h>

#include "formats/kinds/open.h"
#include "formats/kinds/run_folder.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/json/json_parse.h"
#include "lib/system/folders.h"
#include "lib/system/paths.h"
#include "trainer/report/metric_log.h"

namespace nxdkit::trainer {
namespace {

constexpr const char* kInitFrom = "--init-from";
constexpr const char* kModel = "worker.actor.model.model_path";
constexpr const char* kCriticModel = "worker.critic.model.model_path";

void Set(const std::string& ours, const std::string& value, Inherited& inherited) {
  Value said = ResolveScalar(value);
  inherited.keys.push_back({kInitFrom, ours, std::move(said), ""});
}

// The folders from the checkpoint up to the one that contains the run's folder.
std::vector<std::string> FoldersAbove(std::string folder) {
  std::vector<std::string> folders;
  for (int level = 0; level < 4 && !folder.empty(); ++level) {
    folders.push_back(folder);
    folder = ParentPath(folder);
  }
  return folders;
}

// Whether the optimizer's state exists and can be read; if not, a line gives the reason.
Result<bool> HasState(const std::string& path, const std::string& who,
                      std::vector<std::string>& lines) {
  artifact::InputHints hints;
  NXDKIT_ASSIGN(const artifact::BoundArtifact weights, kinds::OpenAndBind(path, nullptr, hints));
  for (const std::string& warning : weights.artifact.warnings) lines.push_back(warning);
  hints.optimizer = true;
  const auto source = kinds::OpenAndBind(path, nullptr, hints);
  if (source.ok() && source->optimizer) return true;
  lines.push_back(
      fmt::format("left   the optimizer's state of the {}, which starts from zeros: {}", who,
                  source.ok() ? "there is none" : EscapeControl(source.error().ToString())));
  return false;
}

}  // namespace

Result<InitFrom> ReadInitFrom(const std::string& run) {
  InitFrom out;
  NXDKIT_ASSIGN(const std::string real, RealPath(run));
  NXDKIT_ASSIGN(const kinds::RunCheckpoint found, kinds::FindCheckpoint(real));
  for (const std::string& warning : found.warnings) out.lines.push_back(warning);
  NXDKIT_ASSIGN(const auto file, FindInherited(FoldersAbove(found.path)));
  Result<Inherited> read = file ? ReadInherited(*file) : Result<Inherited>(Inherited());
  if (!read.ok() && read.error().code() == Errc::kIo) return std::move(read).error();
  if (!read.ok()) {
    out.lines.push_back("left   the run's configuration: " +
                        EscapeControl(read.error().ToString()));
  } else if (file) {
    out.inherited = *std::move(read);
    for (std::string& line : InheritedLines(out.inherited)) out.lines.push_back(std::move(line));
  } else {
    out.lines.push_back(
        "neither experiment_config.json (EasyR1) nor .hydra/config.yaml (verl) is next to the "
        "checkpoint: the configuration comes from --config and the command line alone");
  }
  NXDKIT_ASSIGN(const bool state, HasState(found.path, "actor", out.lines));
  Set(kModel, found.path, out.inherited);
  Set("worker.actor.optim.from_model", state ? "true" : "false", out.inherited);
  const std::string critic = JoinPath(ParentPath(found.path), kinds::kCriticFolder);
  NXDKIT_ASSIGN(const bool has_critic, IsFolder(critic));
  if (has_critic && critic != found.path) {
    NXDKIT_ASSIGN(const bool critics, HasState(critic, "critic", out.lines));
    Set(kCriticModel, critic, out.inherited);
    Set("worker.critic.optim.from_model", critics ? "true" : "false", out.inherited);
  }
  out.lines.push_back(
      fmt::format("taken  {}={}, {}", kModel, EscapeControl(found.path),
                  state ? "with its optimizer's state" : "without an optimizer's state"));
  out.lines.push_back(
      "new    the steps, the schedule of the learning rate and the order of the data start anew; "
      "the reference policy of KL is this checkpoint");
  return out;
}

Status KeepOrigin(LoadedConfig& loaded, std::vector<std::string>& lines) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
  const std::string file =
      JoinPath(*loaded.config.trainer.save_checkpoint_path, std::string(kConfigFile));
  NXDKIT_ASSIGN(const bool there, IsThere(file));
  if (!there) return OkStatus();
  NXDKIT_ASSIGN(const Json json, ReadJsonFile(file, kMaxBytes));
  const std::pair<const char*, UpdaterConfig*> roles[] = {{"actor", &loaded.config.worker.actor},
                                                          {"critic", &loaded.config.worker.critic}};
  for (const auto& [role, section] : roles) {
    const Json* at = &json;
    for (const char* key : {"worker", role, "model", "model_path"})
      at = at && at->is_object() ? JsonFind(*at, key) : nullptr;
    ModelSection& model = section->model;
    const std::string key = fmt::format("worker.{}.model.model_path", role);
    const bool inherited = loaded.SourceOf(key).override_text == kInitFrom;
    if (!at || !at->is_string() || !inherited || *at == *model.model_path) continue;
    if (model.tokenizer_path == model.model_path) model.tokenizer_path = at->get<std::string>();
    model.model_path = at->get<std::string>();
    lines.push_back(fmt::format("kept   {}={}, from which the run began", key,
                                EscapeControl(*model.model_path)));
  }
  return OkStatus();
}

}  // namespace nxdkit::trainer
