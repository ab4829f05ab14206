#include "trainer/loop/checkpoint.h"

#include <fmt/format.h>

#include <charconv>
#include <climits>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "formats/ops/convert.h"
#include "lib/file.h"
#include "lib/json.h"
#include "trainer/algo/selection.h"

namespace nxdkit::trainer {
namespace {

constexpr char kPrefix[] = "global_step_";
constexpr char kTracker[] = "checkpoint_tracker.json";
constexpr char kState[] = "trainer_state.json";
constexpr int kVersion = 1;
constexpr uint64_t kMaxJson = 16 << 20;

std::string FolderName(int64_t step) { return kPrefix + std::to_string(step); }

// The whole name, so that "global_step_5.partial" is none.
std::optional<int64_t> StepOf(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(sizeof kPrefix - 1);
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

std::string StateText(const TrainerState& state) {
  const Json json = {{"data", Json::parse(state.data.empty() ? "null" : state.data)},
                     {"dp", state.dp},
                     {"kl_beta", state.kl_beta},
                     {"prompts_seen", state.prompts_seen},
                     {"schedule_steps", state.schedule_steps},
                     {"step", state.step},
                     {"tp", state.tp},
                     {"version", kVersion}};
  return json.dump(2) + "\n";
}

Result<Json> ReadJson(const std::string& path) {
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, kMaxJson));
  auto json = ParseJson(text, {});
  if (!json.ok()) return std::move(json).error().in(path);
  if (!json->is_object()) return Error(Errc::kCorrupt, "found no object").in(path);
  return json;
}

// 0 to `most`.
Result<int64_t> Count(const Json& json, const char* key, const std::string& path,
                      int64_t most = INT64_MAX) {
  Result<int64_t> count = JsonInt(json, key);
  if (!count.ok()) return std::move(count).error().in(path);
  if (*count >= 0 && *count <= most) return count;
  return Error(Errc::kCorrupt, fmt::format("found {}, expected 0 to {}", *count, most))
      .in(path)
      .member(key);
}

Result<TrainerState> ReadState(const std::string& path) {
  NXDKIT_ASSIGN(const Json json, ReadJson(path));
  NXDKIT_ASSIGN(const int64_t version, Count(json, "version", path));
  if (version != kVersion)
    return Error(Errc::kUnsupported,
                 fmt::format("version {}, this program knows {}", version, kVersion))
        .in(path);
  TrainerState state;
  NXDKIT_ASSIGN(state.step, Count(json, "step", path));
  NXDKIT_ASSIGN(state.schedule_steps, Count(json, "schedule_steps", path));
  NXDKIT_ASSIGN(state.prompts_seen, Count(json, "prompts_seen", path));
  NXDKIT_ASSIGN(const int64_t tp, Count(json, "tp", path, INT_MAX));
  NXDKIT_ASSIGN(const int64_t dp, Count(json, "dp", path, INT_MAX));
  state.tp = static_cast<int>(tp);
  state.dp = static_cast<int>(dp);
  const Result<double> beta = JsonDouble(json, "kl_beta");
  if (!beta.ok()) return Error(beta.error()).in(path);
  state.kl_beta = *beta;
  if (const Json* data = JsonFind(json, "data"); data && !data->is_null())
    state.data = data->dump();
  return state;
}

Status WriteTracker(const SaveRequest& request) {
  Json json = {
      {"last_global_step", request.state.step},
      {"last_actor_path", JoinPath(CheckpointFolder(request.root, request.state.step), "actor")}};
  if (request.best) {
    json["best_global_step"] = request.best->step;
    json["best_val_reward_score"] = request.best->score;
  }
  return WriteFileAtomic(JoinPath(request.root, kTracker), json.dump(2) + "\n");
}

Status DeleteObsolete(const SaveRequest& request) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(request.root));
  std::vector<int64_t> steps;
  for (const std::string& name : names)
    if (const auto step = StepOf(name)) steps.push_back(*step);
  const auto best = request.best ? std::optional(request.best->step) : std::nullopt;
  for (const int64_t step : ObsoleteSteps(steps, request.state.step, best, request.limit)) {
    const std::string folder = CheckpointFolder(request.root, step);
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    if (error)
      return Error(Errc::kIo, fmt::format("cannot delete it: {}", error.message())).in(folder);
  }
  return OkStatus();
}

// An NxD tag, and in it a model folder.
Status WriteModel(const SaveRequest& request, const TrainedModel& trained,
                  const std::string& folder, const ops::RunOptions& run) {
  MeshModel& model = *trained.model;
  OptimizerMemory optimizer = model.optimizer();
  optimizer.lr = trained.lr;
  const auto source = [&](const OptimizerMemory* with) {
    return [&, with]() -> Result<ops::BoundArtifact> {
      return BindTraining(*trained.base, model.config().model, model.weights(), with);
    };
  };
  ops::ConvertRequest convert;
  convert.source = source(request.model_only ? nullptr : &optimizer);
  convert.to = ops::Kind::kNxd;
  convert.output = JoinPath(folder, trained.name);
  convert.options.tp = model.options().tp;
  convert.options.dp = model.options().dp;
  convert.options.hardware = models::Hardware::kTrn1;
  convert.run = run;
  const std::string tag_folder = convert.output;
  const auto tag = ops::Convert(convert);
  if (!tag.ok()) return tag.error();
  convert.source = source(nullptr);
  convert.to = ops::Kind::kHf;
  convert.output = JoinPath(tag_folder, "huggingface");
  convert.options = {};
  convert.options.dtype = Dtype::kBF16;
  const auto exported = ops::Convert(convert);
  if (!exported.ok()) return exported.error();
  NXDKIT_TRY(WriteTextFiles(request.text, tag_folder));
  return WriteTextFiles(request.text, convert.output);
}

std::optional<BestScore> BestOf(const Json& tracker) {
  const Json* step = JsonFind(tracker, "best_global_step");
  const Json* score = JsonFind(tracker, "best_val_reward_score");
  if (!step || !step->is_number_integer() || !score || !score->is_number()) return std::nullopt;
  return BestScore{step->get<int64_t>(), score->get<double>()};
}

}  // namespace

std::string CheckpointFolder(const std::string& root, int64_t step) {
  return JoinPath(root, FolderName(step));
}

Status SaveCheckpoint(const SaveRequest& request, std::span<const TrainedModel> models,
                      const ops::RunOptions& run) {
  const std::string folder = CheckpointFolder(request.root, request.state.step);
  NXDKIT_ASSIGN(Staging staging, Staging::Begin(folder, {.replace = true}));
  for (const TrainedModel& model : models)
    NXDKIT_TRY(WriteModel(request, model, staging.path(), run));
  NXDKIT_TRY(WriteFileAtomic(JoinPath(staging.path(), kState), StateText(request.state)));
  NXDKIT_TRY(staging.Publish());
  NXDKIT_TRY(WriteTracker(request));
  return DeleteObsolete(request);
}

Result<std::optional<FoundCheckpoint>> FindLastCheckpoint(const std::string& root) {
  const std::string path = JoinPath(root, kTracker);
  if (KindOf(path) == PathKind::kMissing) return std::optional<FoundCheckpoint>();
  NXDKIT_ASSIGN(const Json tracker, ReadJson(path));
  FoundCheckpoint found;
  NXDKIT_ASSIGN(found.step, Count(tracker, "last_global_step", path));
  found.folder = CheckpointFolder(root, found.step);
  found.best = BestOf(tracker);
  if (KindOf(found.folder) != PathKind::kFolder)
    return Error(Errc::kCorrupt,
                 fmt::format("{} is named by the tracker and not there", FolderName(found.step)))
        .in(path)
        .hint(
            "trainer.load_checkpoint_path names another one; without the tracker a new run "
            "begins");
  return std::optional(found);
}

Result<FoundCheckpoint> OpenCheckpoint(const std::string& folder) {
  const std::optional<int64_t> step = StepOf(BaseName(folder));
  if (!step)
    return Error(Errc::kUsage, fmt::format("{} is not named {}N", BaseName(folder), kPrefix))
        .in(folder);
  if (KindOf(folder) != PathKind::kFolder)
    return Error(Errc::kNotFound, "no such checkpoint").in(folder);
  FoundCheckpoint found{folder, *step, std::nullopt};
  const std::string tracker = JoinPath(ParentPath(folder), kTracker);
  if (KindOf(tracker) != PathKind::kFile) return found;
  NXDKIT_ASSIGN(const Json json, ReadJson(tracker));
  found.best = BestOf(json);
  return found;
}

Result<TrainerState> RestoreCheckpoint(const FoundCheckpoint& found,
                                       std::span<const TrainedModel> models,
                                       const ops::RunOptions& run) {
  NXDKIT_ASSIGN(const TrainerState state, ReadState(JoinPath(found.folder, kState)));
  if (state.step != found.step)
    return Error(Errc::kCorrupt, fmt::format("step {}, expected {}", state.step, found.step))
        .in(JoinPath(found.folder, kState));
  for (const TrainedModel& trained : models) {
    const std::string folder = JoinPath(found.folder, trained.name);
    if (KindOf(folder) != PathKind::kFolder)
      return Error(Errc::kNotFound, fmt::format("the checkpoint has no {}", trained.name))
          .in(folder)
          .hint("it is of a run with another algorithm.adv_estimator");
    NXDKIT_TRY(trained.model->Restore(folder, run));
  }
  return state;
}

}  // namespace nxdkit::trainer
