#include "trainer/loop/checkpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <map>
#include <nlohmann/json.hpp>

#include "formats/kinds/run_folder.h"
#include "formats/kinds/table.h"
#include "formats/ops/convert/convert.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/staging.h"
#include "lib/system/system.h"
#include "trainer/algo/selection.h"
#include "trainer/config/config.h"
#include "trainer/loop/deliveries.h"
#include "trainer/report/metric_log.h"

namespace nxdkit::trainer {
namespace {

using kinds::StepFolder;
using kinds::StepOfFolder;

constexpr const char* kTracker = kinds::kRunTracker;
constexpr char kState[] = "trainer_state.json";
constexpr std::string_view kAttemptMark = ".attempt-";
constexpr int kVersion = 1;
constexpr uint64_t kMaxJson = 16 << 20;

// Names of folders may contain any bytes.
std::string Text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string StateText(const TrainerState& state) {
  Json json = {{"data", Json::parse(state.data.empty() ? "null" : state.data)},
               {"dp", state.dp},
               {"kl_beta", state.kl_beta},
               {"prompts_seen", state.prompts_seen},
               {"schedule_steps", state.schedule_steps},
               {"started_from", state.started_from},
               {"step", state.step},
               {"tp", state.tp},
               {"version", kVersion}};
  if (!state.template_date.empty()) json["template_date"] = state.template_date;
  return Text(json);
}

Result<Json> ReadJson(const std::string& path) {
  NXDKIT_ASSIGN(Json json, ReadJsonFile(path, kMaxJson));
  if (!json.is_object()) return Corrupt("found no object").in(path);
  return json;
}

// A count from 0 to `most`.
Result<int64_t> Count(const Json& json, const char* key, const std::string& path,
                      int64_t most = INT64_MAX) {
  NXDKIT_ASSIGN(const int64_t count, JsonInt(json, key).in(path));
  if (count >= 0 && count <= most) return count;
  return Corrupt("found {}, expected 0 to {}", count, most).in(path).member(key);
}

Result<TrainerState> ReadState(const std::string& path) {
  NXDKIT_ASSIGN(const Json json, ReadJson(path));
  NXDKIT_ASSIGN(const int64_t version, Count(json, "version", path));
  if (version != kVersion)
    return Unsupported("version {}, this program knows {}", version, kVersion).in(path);
  TrainerState state;
  NXDKIT_ASSIGN(state.step, Count(json, "step", path));
  NXDKIT_ASSIGN(state.schedule_steps, Count(json, "schedule_steps", path));
  NXDKIT_ASSIGN(state.prompts_seen, Count(json, "prompts_seen", path));
  NXDKIT_ASSIGN(const int64_t tp, Count(json, "tp", path, INT_MAX));
  NXDKIT_ASSIGN(const int64_t dp, Count(json, "dp", path, INT_MAX));
  state.tp = static_cast<int>(tp);
  state.dp = static_cast<int>(dp);
  NXDKIT_ASSIGN(state.kl_beta, JsonDouble(json, "kl_beta").in(path));
  if (const Json* data = JsonFind(json, "data")) state.data = data->dump();
  if (const Json* from = JsonFind(json, "started_from"); from && from->is_string())
    state.started_from = from->get<std::string>();
  if (JsonFind(json, "template_date") == nullptr) return state;
  NXDKIT_ASSIGN(state.template_date, JsonString(json, "template_date"));
  if (!MidnightOf(state.template_date))
    return Corrupt("'{}' is not a day", EscapeControl(state.template_date))
        .in(path)
        .member("template_date");
  return state;
}

Status WriteTracker(const SaveRequest& request) {
  Json json = {{"last_global_step", request.state.step},
               {"last_actor_path",
                JoinPath(CheckpointFolder(request.root, request.state.step), kinds::kActorFolder)}};
  if (request.best) {
    json["best_global_step"] = request.best->step;
    json["best_val_reward_score"] = request.best->score;
  }
  return WriteFileAtomic(JoinPath(request.root, kTracker), Text(json));
}

// The steps of the checkpoints in a folder; none if it does not exist.
Result<std::vector<int64_t>> StepsIn(const std::string& root) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(root));
  std::vector<int64_t> steps;
  for (const std::string& name : names)
    if (const auto step = StepOfFolder(name)) steps.push_back(*step);
  return steps;
}

Status DeleteObsolete(const SaveRequest& request) {
  NXDKIT_ASSIGN(const std::vector<int64_t> steps, StepsIn(request.root));
  const auto best = request.best ? std::optional(request.best->step) : std::nullopt;
  for (const int64_t step : ObsoleteSteps(steps, request.state.step, best, request.limit)) {
    // The command that named it must be able to find it again.
    if (StepFolder(step) == request.state.started_from) continue;
    const std::string folder = CheckpointFolder(request.root, step);
    NXDKIT_TRY(RemoveTree(folder));
    if (request.on_deleted) request.on_deleted(step);
  }
  return OkStatus();
}

// Writes an NxD tag, and a model folder inside it.
Status WriteModel(const SaveRequest& request, const TrainedModel& trained,
                  const std::string& folder, bool together, const artifact::RunOptions& run) {
  MeshModel& model = *trained.model;
  const std::string tag_folder = JoinPath(folder, trained.name);
  NXDKIT_TRY(model.WriteTag(
      *trained.base, {tag_folder, trained.lr, request.model_only, run.jobs, run.poll}, together));
  ops::ConvertRequest convert;
  convert.source = [&]() -> Result<artifact::BoundArtifact> {
    return BindTraining(*trained.base, model.config().model, model.weights(), nullptr);
  };
  convert.to = &kinds::kHf;
  convert.output = JoinPath(tag_folder, kinds::kRunModelFolder);
  convert.options.dtype = Dtype::kBF16;
  convert.run = run;
  NXDKIT_TRY(ops::Convert(convert));
  NXDKIT_TRY(WriteTextFiles(request.text, tag_folder));
  return WriteTextFiles(request.text, convert.output);
}

// Advice on what can be done about a damaged one.
std::string EarlierHint(const FoundCheckpoint& damaged) {
  const std::string root = ParentPath(damaged.folder);
  const Result<std::vector<int64_t>> steps = StepsIn(root);
  int64_t earlier = -1;
  if (steps.ok())
    for (const int64_t step : *steps)
      if (step < damaged.step) earlier = std::max(earlier, step);
  if (earlier < 0) return "there is no earlier checkpoint: start over in another folder";
  return fmt::format("continue from an earlier step: trainer.load_checkpoint_path={}",
                     CheckpointFolder(root, earlier));
}

// The error of a damaged file, with advice added to its hint.
Error WithEarlier(const Error& error, const FoundCheckpoint& damaged) {
  if (error.code() != Errc::kCorrupt && error.code() != Errc::kNotFound) return error;
  const std::string own = error.hint().empty() ? "" : error.hint() + "; ";
  Error told = Error(error.code(), error.message())
                   .in(error.file())
                   .member(error.member())
                   .on(error.tensor())
                   .hint(own + EarlierHint(damaged));
  if (error.offset()) told = std::move(told).at(*error.offset());
  if (error.rank()) told = std::move(told).rank(*error.rank());
  return told;
}

std::optional<BestScore> BestOf(const std::optional<kinds::RunTracker>& tracker) {
  if (!tracker || !tracker->best_step || !tracker->best_score) return std::nullopt;
  return BestScore{*tracker->best_step, *tracker->best_score};
}

// The state is the last file that a checkpoint gets.
Result<bool> IsWholeCheckpoint(const std::string& folder) { return HasFile(folder, kState); }

// For a folder without checkpoints: then the tracker must not name one.
Result<std::optional<FoundCheckpoint>> FindInEmptyRun(const std::string& root) {
  constexpr const char* kHint =
      "there is no other checkpoint: remove the tracker to begin a new run, or name one with "
      "trainer.load_checkpoint_path";
  const Result<std::optional<kinds::RunTracker>> tracker = kinds::ReadRunTracker(root);
  if (!tracker.ok()) return Error(tracker.error()).hint(kHint);
  if (!*tracker) return std::optional<FoundCheckpoint>();
  return Corrupt("{} is named by the tracker but missing", StepFolder((*tracker)->step))
      .in(JoinPath(root, kTracker))
      .hint(kHint);
}

// Every process that holds ranks checks the files of its own.
Status CheckElsewhere(const FoundCheckpoint& found, std::span<const TrainedModel> models) {
  Leader* leader = models.empty() ? nullptr : models.front().model->options().leader;
  if (leader == nullptr) return OkStatus();
  NXDKIT_ASSIGN(const std::optional<int> without,
                FirstProcessWithoutFile(*leader, models.front().model->OthersWithRanks(),
                                        JoinPath(found.folder, kState)));
  if (!without) return OkStatus();
  return NotFound("process {} of the run does not have this checkpoint", *without)
      .in(found.folder)
      .hint(
          "keep trainer.save_checkpoint_path where all machines see it, or copy the checkpoint to "
          "the same path there");
}

// The last checkpoint of a run that is named as a whole.
Result<FoundCheckpoint> OpenLastCheckpoint(const std::string& run) {
  NXDKIT_ASSIGN(std::optional<FoundCheckpoint> last, FindLastCheckpoint(run));
  if (!last)
    return BadUsage("{} is not named {}N, and holds none that is", BaseName(run),
                    kinds::kStepPrefix)
        .in(run);
  if (last->tracker_fault)
    return Error(*last->tracker_fault)
        .hint(fmt::format("name a checkpoint, such as the newest: trainer.load_checkpoint_path={}",
                          last->folder));
  return *std::move(last);
}

// A checkpoint, or the last one of a run.
Result<FoundCheckpoint> OpenCheckpoint(const std::string& folder) {
  const std::optional<int64_t> step = StepOfFolder(BaseName(folder));
  if (!step) return OpenLastCheckpoint(folder);
  NXDKIT_ASSIGN(const bool is_folder, IsFolder(folder));
  if (!is_folder) return NotFound("no such checkpoint").in(folder);
  FoundCheckpoint found{folder, *step, std::nullopt};
  const Result<std::optional<kinds::RunTracker>> tracker =
      kinds::ReadRunTracker(ParentPath(folder));
  if (!tracker.ok() && tracker.error().code() == Errc::kIo) return Error(tracker.error());
  if (tracker.ok())
    found.best = BestOf(*tracker);
  else
    found.warnings.push_back(tracker.error().ToString() + "; the best score so far is not known");
  return found;
}

// Whether the state is damaged or gone; if the system failed to deliver it, it might have had an
// answer.
bool IsUnreadable(const Error& error) {
  return error.code() == Errc::kCorrupt || error.code() == Errc::kNotFound;
}

// "" too when its state is unreadable.
Result<std::string> StartedFrom(const FoundCheckpoint& found) {
  Result<TrainerState> state = ReadState(JoinPath(found.folder, kState));
  if (state.ok()) return state->started_from;
  if (IsUnreadable(state.error())) return std::string();
  return std::move(state).error();
}

// `or_else`: the alternative to naming another folder.
Status CheckNoOther(const std::string& root, std::string_view or_else) {
  NXDKIT_ASSIGN(const std::vector<int64_t> steps, StepsIn(root));
  if (steps.empty()) return OkStatus();
  return BadUsage(
             "the folder holds another run, with a checkpoint of step {}; this run would mix with "
             "it",
             std::ranges::max(steps))
      .in(root)
      .hint(fmt::format("name another trainer.save_checkpoint_path, or {}", or_else));
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// A checkpoint set aside while another one takes its place. If that place is empty, it is the only
// one of its step.
Result<bool> IsReplaced(std::string_view name, const std::string& root) {
  const std::optional<std::string_view> output = OutputOfAside(name);
  const std::optional<int64_t> step = output ? StepOfFolder(*output) : std::nullopt;
  return step ? IsFolder(CheckpointFolder(root, *step)) : Result<bool>(false);
}

// "global_step_5.partial", "global_step_5.attempt-2.partial", "checkpoint_tracker.json.tmp-123"
Result<bool> IsLeftover(std::string_view name, const std::string& root) {
  constexpr std::string_view kPartial = ".partial", kTemporary = ".tmp-";
  if (name.ends_with(kPartial)) {
    std::string_view output = name.substr(0, name.size() - kPartial.size());
    if (const size_t mark = output.rfind(kAttemptMark);
        mark != std::string_view::npos && IsNumber(output.substr(mark + kAttemptMark.size())))
      output = output.substr(0, mark);
    return StepOfFolder(output) ? Result<bool>(true) : IsReplaced(name, root);
  }
  const size_t at = name.rfind(kTemporary);
  if (at == std::string_view::npos) return false;
  const bool ours = name.substr(0, at) == kTracker || name.substr(0, at) == kConfigFile;
  return ours && IsNumber(name.substr(at + kTemporary.size()));
}

}  // namespace

std::string CheckpointFolder(const std::string& root, int64_t step) {
  return JoinPath(root, StepFolder(step));
}

Status SaveCheckpoint(const SaveRequest& request, std::span<const TrainedModel> models,
                      const artifact::RunOptions& run) {
  const std::string folder = CheckpointFolder(request.root, request.state.step);
  NXDKIT_ASSIGN(Staging staging, Staging::Begin(folder, {.replace = true, .mark = request.mark}));
  bool together = false;
  if (Leader* leader = models.front().model->options().leader) {
    NXDKIT_ASSIGN(
        const std::vector<int> blind,
        ProcessesWithoutFolder(*leader, models.front().model->OthersWithRanks(), staging.path()));
    together = blind.empty();
  }
  for (const TrainedModel& model : models)
    NXDKIT_TRY(WriteModel(request, model, staging.path(), together, run));
  NXDKIT_TRY(WriteFileAtomic(JoinPath(staging.path(), kState), StateText(request.state)));
  if (request.may_publish) NXDKIT_TRY(request.may_publish());
  NXDKIT_TRY(staging.Publish());
  // The file system may have hung before publishing.
  if (request.may_publish) NXDKIT_TRY(request.may_publish());
  NXDKIT_TRY(WriteTracker(request));
  return DeleteObsolete(request);
}

Result<std::optional<FoundCheckpoint>> FindLastCheckpoint(const std::string& root) {
  NXDKIT_ASSIGN(const std::vector<int64_t> steps, StepsIn(root));
  if (steps.empty()) return FindInEmptyRun(root);
  std::map<int64_t, bool> whole;
  for (const int64_t step : steps)
    NXDKIT_TRY(IsWholeCheckpoint(CheckpointFolder(root, step)).To(whole[step]));
  NXDKIT_ASSIGN(kinds::ChosenStep chosen, kinds::ChooseRunStep(root, whole));
  FoundCheckpoint found{CheckpointFolder(root, chosen.step), chosen.step, BestOf(chosen.tracker)};
  found.choice = chosen.choice;
  found.warnings = chosen.Warnings();
  if (chosen.tracker_fault && !chosen.tracker)
    found.warnings.front() += "; the best score so far is not known";
  found.tracker_fault = std::move(chosen.tracker_fault);
  return std::optional(std::move(found));
}

Result<std::optional<FoundCheckpoint>> ChooseCheckpoint(const std::string& root,
                                                        const std::optional<std::string>& load,
                                                        bool find_last) {
  if (!load && find_last) return FindLastCheckpoint(root);
  if (!load) {
    NXDKIT_TRY(CheckNoOther(root, "continue it: trainer.find_last_checkpoint=true"));
    return std::optional<FoundCheckpoint>();
  }
  NXDKIT_ASSIGN(FoundCheckpoint loaded, OpenCheckpoint(*load));
  NXDKIT_ASSIGN(const bool beside, SamePath(ParentPath(loaded.folder), root));
  NXDKIT_ASSIGN(loaded.started_from,
                beside ? Result<std::string>(BaseName(loaded.folder)) : RealPath(loaded.folder));
  if (find_last) {
    // A damaged tracker does not prevent loading a named checkpoint.
    Result<std::optional<FoundCheckpoint>> last = FindLastCheckpoint(root);
    if (!last.ok() && !IsUnreadable(last.error())) return last;
    if (last.ok() && *last) {
      NXDKIT_ASSIGN(const std::string from, StartedFrom(**last));
      if (from == loaded.started_from) return last;
    }
  }
  if (!beside)
    NXDKIT_TRY(CheckNoOther(root, "continue it: leave trainer.load_checkpoint_path out"));
  return std::optional(std::move(loaded));
}

Result<std::string> TemplateDateOf(const FoundCheckpoint& found) {
  NXDKIT_ASSIGN(const TrainerState state, ReadState(JoinPath(found.folder, kState)));
  return state.template_date;
}

Status RemoveLeftovers(const std::string& root) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(root));
  for (const std::string& name : names) {
    NXDKIT_ASSIGN(const bool left, IsLeftover(name, root));
    if (left) NXDKIT_TRY(RemoveTree(JoinPath(root, name)));
  }
  return OkStatus();
}

Result<TrainerState> RestoreCheckpoint(const FoundCheckpoint& found,
                                       std::span<const TrainedModel> models,
                                       const artifact::RunOptions& run) {
  Result<TrainerState> state = ReadState(JoinPath(found.folder, kState));
  if (state.ok() && state->step != found.step)
    state =
        Corrupt("step {}, expected {}", state->step, found.step).in(JoinPath(found.folder, kState));
  if (!state.ok()) return WithEarlier(state.error(), found);
  NXDKIT_TRY(CheckElsewhere(found, models));
  for (const TrainedModel& trained : models) {
    const std::string folder = JoinPath(found.folder, trained.name);
    NXDKIT_ASSIGN(const bool is_folder, IsFolder(folder));
    if (!is_folder)
      return NotFound("the checkpoint has no {}", trained.name)
          .in(folder)
          .hint("it is from a run with another algorithm.adv_estimator");
    const Status restored = trained.model->Restore(folder, run);
    if (!restored.ok()) return WithEarlier(restored.error(), found);
  }
  if (!found.started_from.empty()) state->started_from = found.started_from;
  return state;
}

}  // namespace nxdkit::trainer
