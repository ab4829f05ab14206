#include "trainer/loop/run_state.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/folders.h"
#include "lib/system/system.h"
#include "trainer/algo/schedule.h"
#include "trainer/learner/followers.h"
#include "trainer/report/run_files.h"

namespace nxdkit::trainer {

Result<RunLogs> RunLogs::Open(const LoopContext& run, std::optional<int64_t> resumed,
                              const std::string& config_json) {
  const TrainerConfig& trainer = run.config.trainer;
  const std::string& root = run.root();
  NXDKIT_ASSIGN(const bool has_log, HasFile(root, kMetricsFile));
  if (!resumed && has_log)
    run.Note(fmt::format("{} has a log but no checkpoint: the run and its log start over", root));
  RunLogs logs;
  NXDKIT_ASSIGN(logs.metrics, MetricLog::Open(root, resumed, config_json));
  int64_t dropped = 0;
  NXDKIT_ASSIGN(logs.syncs, ContinueLog(JoinPath(root, "weight_syncs.jsonl"), resumed, &dropped));
  if (logs.metrics.dropped() > 0)
    run.Note(fmt::format("dropped {} of steps after {} from the logs",
                         Counted(logs.metrics.dropped(), "record"), *resumed));
  if (std::ranges::find(trainer.logger, "tensorboard") == trainer.logger.end()) return logs;
  NXDKIT_ASSIGN(logs.events,
                EventFile::Create(TensorboardFolder(trainer.tensorboard_dir.value_or(""),
                                                    trainer.project_name, trainer.experiment_name),
                                  resumed.value_or(0)));
  return logs;
}

Status RunLogs::Write(int64_t step, const MetricRecord& record) {
  NXDKIT_TRY(metrics.Write(step, record));
  return events ? events->WriteScalars(step, record) : OkStatus();
}

Status RunLogs::WriteSync(int64_t step, const SyncedWeights& synced, const EngineFacts& loaded) {
  return syncs.Append(fmt::format(
      "{{\"step\": {}, \"serial\": {}, \"digest\": \"{}\", \"engine\": {}, \"proved\": {}, "
      "\"not_covered\": {}}}\n",
      step, synced.version.serial, synced.digest,
      Json(loaded.engine).dump(-1, ' ', true, Json::error_handler_t::replace), loaded.proved,
      loaded.not_covered));
}

double RunState::LearningRate(const StepRules& rules) const {
  return run_.config.worker.actor.optim.lr * ScheduleFactor(rules.schedule, now.schedule_steps);
}

Status RunState::Resume(const StepRules& rules) {
  const TrainerConfig& trainer = run_.config.trainer;
  now.kl_beta = run_.config.algorithm.kl_coef;
  NXDKIT_TRY(RemoveLeftovers(run_.root()));
  NXDKIT_ASSIGN(
      const std::optional<FoundCheckpoint> found,
      ChooseCheckpoint(run_.root(), trainer.load_checkpoint_path, trainer.find_last_checkpoint));
  if (!found) return OkStatus();
  NXDKIT_ASSIGN(now, RestoreCheckpoint(*found, Models(), run_.FileOptions(run_.hooks.poll)));
  NXDKIT_TRY(train_.Seek(now.data));
  best_ = found->best;
  // From another branch of the run, from another run, or gone.
  if (best_) {
    NXDKIT_ASSIGN(const bool ours, SamePath(ParentPath(found->folder), run_.root()));
    NXDKIT_ASSIGN(const bool there, IsFolder(CheckpointFolder(run_.root(), best_->step)));
    if (best_->step > now.step || !ours || !there) best_.reset();
  }
  // Only the adaptive controller has a coefficient of its own.
  if (rules.kl.type != KlControl::kAdaptive) now.kl_beta = run_.config.algorithm.kl_coef;
  resumed_ = resumable_ = now.step;
  whole_ = now;
  run_.Note(ResumeNote(found->folder, rules));
  const MeshOptions& mesh = models_.actor->options();
  if (mesh.tp != now.tp || mesh.dp != now.dp)
    run_.Note(
        fmt::format("the checkpoint is from TP {} x DP {}, this run is TP {} x DP {}: it "
                    "continues, but not bit for bit",
                    now.tp, now.dp, mesh.tp, mesh.dp));
  return OkStatus();
}

std::string RunState::ResumeNote(const std::string& folder, const StepRules& rules) const {
  std::string note =
      fmt::format("resumed from {}: step {} of {}, learning rate {:.3g}, data at {}, {} seen",
                  folder, now.step, record_.training_steps, LearningRate(rules), train_.Place(),
                  Counted(now.prompts_seen, "prompt"));
  if (rules.kl.type == KlControl::kAdaptive)
    note += fmt::format(", KL coefficient {:.3g}", now.kl_beta);
  if (best_) note += fmt::format(", best score {:.4f} at step {}", best_->score, best_->step);
  return note;
}

std::vector<TrainedModel> RunState::Models() const {
  std::vector<TrainedModel> out = {{"actor", models_.actor.get(), &models_.base.artifact, lr}};
  if (models_.critic)
    out.push_back(
        {"critic", models_.critic.get(), &models_.critic_model->source.artifact, critic_lr});
  return out;
}

void RunState::EndStep() {
  whole_ = now;
  whole_->data = train_.Position();
}

Status RunState::CountSkips(const UpdateSummary& summary, std::string_view model) {
  int64_t& in_row = model == "actor" ? actor_skips_ : critic_skips_;
  if (summary.skipped == summary.updates)
    ++in_row;
  else if (summary.moved)
    in_row = 0;
  if (summary.skipped > 0)
    run_.Note(
        fmt::format("step {}: a gradient of the {} was not finite; {} of {} updates were skipped",
                    now.step + 1, model, summary.skipped, summary.updates));
  if (in_row < run_.config.trainer.max_skipped_steps) return OkStatus();
  return Error(Errc::kFindings,
               fmt::format("{} steps in a row had gradients of the {} that are not finite", in_row,
                           model))
      .hint(fmt::format("lower worker.{}.optim.lr, or continue from an earlier checkpoint", model));
}

bool RunState::IsToBeSaved() const {
  const bool saved = saved_ == now.step || resumed_ == now.step;
  return (!saved || IsBetter()) && !stuck();
}

Status RunState::Save(RunLogs& logs, const std::function<Status()>& poll, bool model_only) {
  // Only a saved step can be the best one.
  if (IsBetter()) best_ = score_;
  NXDKIT_TRY(logs.metrics.Sync());  // before the checkpoint is published
  const auto record = [&](const std::string& line) {
    if (run_.hooks.record) run_.hooks.record(line);
  };
  SaveRequest request;
  request.root = run_.root();
  request.state = *whole_;
  request.state.tp = models_.actor->options().tp;
  request.state.dp = models_.actor->options().dp;
  request.state.template_date = record_.template_date;
  request.best = best_;
  request.limit = run_.config.trainer.save_limit;
  request.model_only = model_only;
  request.text = record_.text_files;
  if (const std::optional<Attempt>& attempt = record_.attempt) {
    request.mark = "attempt-" + std::to_string(attempt->number());
    request.may_publish = [&] { return attempt->Check(); };
  }
  request.on_deleted = [&](int64_t step) {
    record(fmt::format("deleted {}: trainer.save_limit is {}", CheckpointFolder(run_.root(), step),
                       request.limit));
  };
  NXDKIT_TRY(SaveCheckpoint(request, Models(), run_.FileOptions(poll)));
  record(fmt::format("saved {}", CheckpointFolder(run_.root(), whole_->step)));
  saved_ = whole_->step;
  if (!model_only) resumable_ = saved_;
  return OkStatus();
}

void RunState::SaveOnError(const Error& error, std::string_view phase, RunLogs& logs) {
  const char* continues = run_.config.trainer.find_last_checkpoint
                              ? "the same command continues from it"
                              : "the command with trainer.find_last_checkpoint=true continues from "
                                "it";
  const bool interrupted = error.code() == Errc::kInterrupted;
  // Weights from a run whose numbers went wrong must not displace a good checkpoint, and neither
  // must half an update.
  const bool suspect = stuck() || error.code() == Errc::kInternal ||
                       (error.code() == Errc::kCorrupt && phase != "reward");
  // After a failed call of the models, other processes cannot send their memory.
  const Leader* leader = models_.actor->options().leader;
  const bool held = leader == nullptr || leader->in_order();
  const bool wanted = held && whole_ && whole_->step > resumable_.value_or(0);
  // A save that failed a moment ago would fail again now.
  if (wanted && !suspect && (interrupted || phase != "save_checkpoint")) {
    const Status saved = Save(logs, {}, false);
    if (saved.ok()) return run_.Note(fmt::format("step {} is saved: {}", whole_->step, continues));
    run_.Note(
        fmt::format("step {} could not be saved: {}", whole_->step, saved.error().ToString()));
  }
  if (saved_ && saved_ != resumable_)
    run_.Note(
        fmt::format("the last checkpoint is that of step {}: it has no optimizer, so no run can "
                    "continue from it (trainer.save_model_only)",
                    *saved_));
  else if (resumable_)
    run_.Note(fmt::format("the last checkpoint is that of step {}: {}", *resumable_, continues));
}

}  // namespace nxdkit::trainer
