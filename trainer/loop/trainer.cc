#include "trainer/loop/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/system/folders.h"
#include "lib/system/system.h"
#include "trainer/algo/balance.h"
#include "trainer/algo/schedule.h"
#include "trainer/loop/checkpoint.h"
#include "trainer/loop/make_batch.h"
#include "trainer/loop/step.h"
#include "trainer/loop/update_policy.h"
#include "trainer/loop/validate.h"
#include "trainer/report/event_file.h"
#include "trainer/report/metric_log.h"
#include "trainer/report/run_files.h"

namespace nxdkit::trainer {
namespace {

constexpr char kSyncs[] = "weight_syncs.jsonl";

class Loop {
 public:
  Loop(const Config& config, const RunPlan& plan, RunParts parts, const TrainHooks& hooks)
      : config_(config), plan_(plan), parts_(std::move(parts)), hooks_(hooks) {}

  Result<TrainResult> Run(const std::string& config_json) {
    NXDKIT_ASSIGN(rules_, MakeStepRules(config_, plan_, parts_.training_steps));
    state_.kl_beta = config_.algorithm.kl_coef;
    NXDKIT_TRY(Resume());
    NXDKIT_TRY(OpenLogs(config_json));
    TrainResult result;
    result.first_step = state_.step;
    if (const Status ran = RunSteps(); !ran.ok()) {
      SaveBeforeLeaving(ran.error());
      return ran.error();
    }
    result.last_step = state_.step;
    result.last = last_;
    return result;
  }

 private:
  const std::string& root() const { return *config_.trainer.save_checkpoint_path; }
  ops::RunOptions RunFiles() const {
    ops::RunOptions run;
    run.jobs = static_cast<int>(std::max<int64_t>(1, plan_.cores));
    run.max_memory = kNoMemoryCap;
    run.poll = hooks_.poll;
    return run;
  }

  Status RunSteps() {
    if (config_.trainer.val_before_train || config_.trainer.val_only) NXDKIT_TRY(ValidateAlone());
    while (!config_.trainer.val_only && state_.step < parts_.training_steps) NXDKIT_TRY(Step());
    return config_.trainer.val_only ? OkStatus() : Finish();
  }

  // A run that is interrupted, or whose reward or workers fail, loses the step under way, not those
  // since the last checkpoint that a run can go on from.
  void SaveBeforeLeaving(const Error& error) {
    const bool interrupted = error.code() == Errc::kInterrupted;
    // Weights of a run whose numbers went wrong push no good checkpoint out, nor do half updates.
    const bool suspect = stuck() || error.code() == Errc::kInternal ||
                         (error.code() == Errc::kCorrupt && phase_ != "reward");
    const bool wanted = whole_ && whole_->step > resumable_.value_or(0);
    // What could not be saved a moment ago cannot be saved now.
    if (wanted && !suspect && (interrupted || phase_ != "save_checkpoint")) {
      const Status saved = WriteCheckpoint({}, false);
      if (saved.ok()) return Note(fmt::format("step {} is saved: {}", whole_->step, GoesOn()));
      Note(fmt::format("step {} could not be saved: {}", whole_->step, saved.error().ToString()));
    }
    if (saved_step_ && saved_step_ != resumable_)
      Note(
          fmt::format("the last checkpoint is that of step {}: no run goes on from it "
                      "(trainer.save_model_only)",
                      *saved_step_));
    else if (resumable_)
      Note(fmt::format("the last checkpoint is that of step {}: {}", *resumable_, GoesOn()));
  }
  const char* GoesOn() const {
    return config_.trainer.find_last_checkpoint
               ? "the same command goes on from it"
               : "the command with trainer.find_last_checkpoint=true goes on from it";
  }

  Status Resume() {
    NXDKIT_TRY(RemoveLeftovers(root()));
    NXDKIT_ASSIGN(const std::optional<FoundCheckpoint> found,
                  ChooseCheckpoint(root(), config_.trainer.load_checkpoint_path,
                                   config_.trainer.find_last_checkpoint));
    if (!found) return OkStatus();
    NXDKIT_ASSIGN(state_, RestoreCheckpoint(*found, TrainedModels(), RunFiles()));
    NXDKIT_TRY(parts_.train->Seek(state_.data));
    best_ = found->best;
    // Of another branch of the run, of another run, or gone.
    if (best_ && (best_->step > state_.step || !SamePath(ParentPath(found->folder), root()) ||
                  KindOf(CheckpointFolder(root(), best_->step)) != PathKind::kFolder))
      best_.reset();
    // Only the adaptive controller has a coefficient of its own.
    if (rules_.kl.type != KlControl::kAdaptive) state_.kl_beta = config_.algorithm.kl_coef;
    resumed_ = resumable_ = state_.step;
    whole_ = state_;
    Note(ResumeNote(found->folder));
    const MeshOptions& mesh = parts_.actor->options();
    if (mesh.tp != state_.tp || mesh.dp != state_.dp)
      Note(
          fmt::format("the checkpoint is of TP {} x DP {}, this run of TP {} x DP {}: it goes on, "
                      "but not bit for bit",
                      state_.tp, state_.dp, mesh.tp, mesh.dp));
    return OkStatus();
  }

  std::string ResumeNote(const std::string& folder) const {
    std::string note = fmt::format(
        "resumed from {}: step {} of {}, learning rate {:.3g}, data at {}, {} prompts seen", folder,
        state_.step, parts_.training_steps, LearningRate(), parts_.train->Place(),
        state_.prompts_seen);
    if (rules_.kl.type == KlControl::kAdaptive)
      note += fmt::format(", KL coefficient {:.3g}", state_.kl_beta);
    if (best_) note += fmt::format(", best score {:.4f} at step {}", best_->score, best_->step);
    return note;
  }

  // Which weights generated what: "step" is the one that they were synced for.
  std::string SyncLine() const {
    return fmt::format("{{\"step\": {}, \"serial\": {}, \"digest\": \"{}\"}}\n", current_,
                       synced_.version.serial, synced_.digest);
  }
  Status OpenSyncs() {
    const std::string path = JoinPath(root(), kSyncs);
    int64_t dropped = 0;
    auto file = ContinueLog(path, resumed_, &dropped);
    if (!file.ok()) return file.error();
    syncs_.emplace(*std::move(file));
    return OkStatus();
  }

  Status OpenLogs(const std::string& config_json) {
    if (!resumed_ && KindOf(JoinPath(root(), kMetricsFile)) == PathKind::kFile)
      Note(fmt::format("{} has a log and no checkpoint: the run begins, and its log anew", root()));
    auto log = MetricLog::Open(root(), resumed_, config_json);
    if (!log.ok()) return log.error();
    log_.emplace(*std::move(log));
    NXDKIT_TRY(OpenSyncs());
    if (log_->dropped() > 0)
      Note(fmt::format("{} records of steps after {} are dropped from the logs", log_->dropped(),
                       state_.step));
    if (std::ranges::find(config_.trainer.logger, "tensorboard") == config_.trainer.logger.end())
      return OkStatus();
    auto events = EventFile::Create(
        TensorboardFolder(config_.trainer.tensorboard_dir.value_or(""),
                          config_.trainer.project_name, config_.trainer.experiment_name),
        resumed_.value_or(0));
    if (!events.ok()) return events.error();
    events_.emplace(*std::move(events));
    return OkStatus();
  }

  // `timed_as`: the name of its time where that is another one's part; nullptr: its own.
  Status Begin(const char* phase, const char* timed_as = nullptr) {
    if (hooks_.poll) NXDKIT_TRY(hooks_.poll());
    phase_ = phase;
    timer_.Begin(timed_as != nullptr ? timed_as : phase);
    if (hooks_.phase) hooks_.phase(current_, parts_.training_steps, phase);
    return OkStatus();
  }
  void Note(const std::string& line) const {
    if (hooks_.note) hooks_.note(line);
  }
  void Record(const std::string& line) const {
    if (hooks_.record) hooks_.record(line);
  }

  std::vector<TrainedModel> TrainedModels() const {
    std::vector<TrainedModel> models = {{"actor", parts_.actor.get(), &parts_.base.artifact, lr_}};
    if (parts_.critic)
      models.push_back(
          {"critic", parts_.critic.get(), &parts_.critic_model->source.artifact, critic_lr_});
    return models;
  }

  // What is generated next, in this phase, is generated with the weights as they are now.
  Status Sync(const char* phase, Metrics& metrics) {
    NXDKIT_TRY(Begin("sync", phase));
    NXDKIT_ASSIGN(synced_,
                  SyncWeights(*parts_.actor, *parts_.config, parts_.base.artifact, parts_.bundle,
                              fmt::format("step {}", state_.step), RunFiles()));
    NXDKIT_TRY(parts_.generator->Reload(synced_));
    synced_step_ = state_.step;
    NXDKIT_TRY(syncs_->Append(SyncLine()));
    metrics.Set("sync/serial", static_cast<double>(synced_.version.serial));
    return OkStatus();
  }

  Status Step() {
    current_ = state_.step + 1;
    const double started = timer_.Now();
    Metrics metrics;
    NXDKIT_TRY(Sync("gen", metrics));
    const BatchHooks hooks{[&](const std::string& line) { Note(line); },
                           [&](const char* phase) { return Begin(phase); }};
    NXDKIT_ASSIGN(std::vector<Sample> samples,
                  MakeBatch(config_, plan_, parts_, current_, state_.prompts_seen, metrics, hooks));
    NXDKIT_TRY(Balance(samples, metrics));
    NXDKIT_TRY(Begin("old"));
    NXDKIT_TRY(AddOldLogProbs(*parts_.actor, samples, metrics));
    if (parts_.reference) {
      NXDKIT_TRY(Begin("ref"));
      NXDKIT_TRY(AddRefLogProbs(*parts_.reference, samples));
    }
    if (parts_.critic) {
      NXDKIT_TRY(Begin("values"));
      NXDKIT_TRY(AddValues(*parts_.critic, samples));
    }
    NXDKIT_TRY(Begin("adv"));
    NXDKIT_TRY(AddAdvantages(rules_, state_.kl_beta, samples, metrics));
    NXDKIT_TRY(Update(samples, metrics));
    state_.step = current_;
    timer_.End();
    AddBatchStats(config_, samples, metrics);
    const Status validated = IsDue(config_.trainer.val_freq) ? Validate(metrics) : OkStatus();
    const bool saves = validated.ok() && IsSaveWanted();
    // Before the checkpoint: a run that goes on from it must find the step in its log. The times
    // follow when they are known: saving is a part of the step.
    if (!saves) AddTimes(samples, timer_.Now() - started, metrics);
    NXDKIT_TRY(Write(state_.step, metrics.Means()));
    whole_ = state_;
    whole_->data = parts_.train->Position();
    const Status ended = saves ? SaveInStep(samples, started, metrics) : validated;
    last_ = metrics.Means();
    if (hooks_.step) hooks_.step(state_.step, parts_.training_steps, last_);
    return ended;
  }

  bool IsSaveWanted() const {
    const bool asked = hooks_.save && hooks_.save();
    // Steps that updated nothing push no good checkpoint out.
    return (asked || IsDue(config_.trainer.save_freq)) && !stuck();
  }

  Status SaveInStep(const std::vector<Sample>& samples, double started, Metrics& metrics) {
    const Status saved = SaveTimed();
    Metrics times;
    AddTimes(samples, timer_.Now() - started, times);
    const Status written = Write(state_.step, times.Means());
    metrics.Merge(times);
    return saved.ok() ? written : saved;
  }

  // Rows move between the ranks so that each has about as many tokens.
  Status Balance(std::vector<Sample>& samples, Metrics& metrics) {
    std::vector<int64_t> lengths;
    for (const Sample& sample : samples) lengths.push_back(sample.row.tokens());
    NXDKIT_ASSIGN(const trainer::Balance balance, BalanceRows(lengths, parts_.actor->options().dp));
    std::vector<Sample> ordered;
    for (const int64_t row : balance.order)
      ordered.push_back(std::move(samples[static_cast<size_t>(row)]));
    samples = std::move(ordered);
    const auto set = [&](const char* name, double value) {
      metrics.Set(std::string("global_seqlen/") + name, value);
    };
    set("min", static_cast<double>(balance.min));
    set("max", static_cast<double>(balance.max));
    set("minmax_diff", static_cast<double>(balance.minmax_diff()));
    set("balanced_min", static_cast<double>(balance.balanced_min));
    set("balanced_max", static_cast<double>(balance.balanced_max));
    set("mean", balance.mean);
    return OkStatus();
  }

  Status Update(const std::vector<Sample>& samples, Metrics& metrics) {
    NXDKIT_TRY(Begin(parts_.critic ? "update_critic" : "update_actor"));
    whole_.reset();
    if (parts_.critic) {
      NXDKIT_TRY(UpdateValues(samples, metrics));
      NXDKIT_TRY(Begin("update_actor"));
    }
    return UpdateActor(samples, metrics);
  }

  double LearningRate() const {
    return config_.worker.actor.optim.lr * ScheduleFactor(rules_.schedule, state_.schedule_steps);
  }

  Status UpdateActor(const std::vector<Sample>& samples, Metrics& metrics) {
    if (config_.trainer.critic_warmup > current_) return OkStatus();
    MiniBatchOptions options;
    options.rows_per_update = plan_.rows_per_update;
    options.epochs = config_.worker.actor.ppo_epochs;
    options.lr = lr_ = LearningRate();
    options.progress = hooks_.progress;
    NXDKIT_ASSIGN(const UpdateSummary summary,
                  UpdatePolicy(*parts_.actor, samples, rules_.loss, options, metrics));
    ++state_.schedule_steps;
    return CountSkips(summary, "actor", actor_skips_);
  }

  // The critic is updated in every step, so the steps are those of its schedule too.
  Status UpdateValues(const std::vector<Sample>& samples, Metrics& metrics) {
    MiniBatchOptions options;
    options.rows_per_update = plan_.critic_rows_per_update;
    options.epochs = config_.worker.critic.ppo_epochs;
    options.lr =
        config_.worker.critic.optim.lr * ScheduleFactor(rules_.critic_schedule, state_.step);
    critic_lr_ = options.lr;
    options.progress = hooks_.progress;
    NXDKIT_ASSIGN(const UpdateSummary summary,
                  UpdateCritic(*parts_.critic, samples, rules_.value_loss, options, metrics));
    return CountSkips(summary, "critic", critic_skips_);
  }

  // `in_row`: steps in a row of this model with no finite gradient.
  Status CountSkips(const UpdateSummary& summary, const char* model, int64_t& in_row) {
    if (summary.skipped == summary.updates)
      ++in_row;
    else if (summary.moved)
      in_row = 0;
    if (summary.skipped > 0)
      Note(
          fmt::format("step {}: a gradient of the {} was not finite, {} of {} updates were left "
                      "out",
                      current_, model, summary.skipped, summary.updates));
    if (in_row >= config_.trainer.max_skipped_steps)
      return Error(Errc::kFindings,
                   fmt::format("{} steps in a row had gradients of the {} that are not finite",
                               in_row, model))
          .hint(
              fmt::format("lower worker.{}.optim.lr, or go on from an earlier checkpoint", model));
    return OkStatus();
  }
  bool stuck() const { return actor_skips_ > 0 || critic_skips_ > 0; }

  bool IsBetter() const {
    return score_ && score_->step == state_.step && (!best_ || score_->score > best_->score);
  }
  bool IsDue(int64_t every) const { return every > 0 && state_.step % every == 0; }

  Status Validate(Metrics& metrics) {
    if (parts_.validation.empty()) return OkStatus();
    if (synced_step_ != state_.step) NXDKIT_TRY(Sync("validation", metrics));
    NXDKIT_TRY(Begin("validation"));
    // A fault of its reward is none of the weights either: see SaveBeforeLeaving.
    const BatchHooks hooks{{}, [&](const char* phase) { return Begin(phase, "validation"); }};
    NXDKIT_ASSIGN(const ValidationResult result,
                  RunValidation(config_, plan_, parts_, state_.step, metrics, hooks));
    timer_.End();
    validated_step_ = state_.step;
    NXDKIT_TRY(log_->WriteGenerations(state_.step, result.samples));
    score_ = BestScore{state_.step, result.score};
    return OkStatus();
  }

  Status ValidateAlone() {
    current_ = state_.step;
    Metrics metrics;
    NXDKIT_TRY(Validate(metrics));
    timer_.Take();  // belongs to no step
    const MetricRecord record = metrics.Means();
    if (record.empty()) return OkStatus();
    NXDKIT_TRY(Write(state_.step, record));
    if (hooks_.step) hooks_.step(state_.step, parts_.training_steps, record);
    return OkStatus();
  }

  Status SaveTimed() {
    NXDKIT_TRY(Begin("save_checkpoint"));
    const Status saved = WriteCheckpoint(hooks_.poll, config_.trainer.save_model_only);
    timer_.End();
    return saved;
  }

  // After the last step.
  Status Save() {
    NXDKIT_TRY(SaveTimed());
    Metrics took;
    for (const auto& [phase, seconds] : timer_.Take()) took.Set("timing_s/" + phase, seconds);
    return Write(state_.step, took.Means());
  }

  // Of the last whole step.
  Status WriteCheckpoint(const std::function<Status()>& poll, bool model_only) {
    // Only what is saved can be the best one.
    if (IsBetter()) best_ = score_;
    NXDKIT_TRY(log_->Sync());
    SaveRequest request;
    request.root = root();
    request.state = *whole_;
    request.state.tp = parts_.actor->options().tp;
    request.state.dp = parts_.actor->options().dp;
    request.best = best_;
    request.limit = config_.trainer.save_limit;
    request.model_only = model_only;
    request.text = parts_.text_files;
    ops::RunOptions run = RunFiles();
    run.poll = poll;
    request.on_deleted = [&](int64_t step) {
      Record(fmt::format("deleted {}: trainer.save_limit is {}", CheckpointFolder(root(), step),
                         request.limit));
    };
    NXDKIT_TRY(SaveCheckpoint(request, TrainedModels(), run));
    Record(fmt::format("saved {}", CheckpointFolder(root(), whole_->step)));
    saved_step_ = whole_->step;
    if (!model_only) resumable_ = saved_step_;
    return OkStatus();
  }

  Status Write(int64_t step, const MetricRecord& record) {
    NXDKIT_TRY(log_->Write(step, record));
    return events_ ? events_->WriteScalars(step, record) : OkStatus();
  }

  // What the step took so far.
  void AddTimes(const std::vector<Sample>& samples, double seconds, Metrics& metrics) {
    int64_t response_tokens = 0, all_tokens = 0;
    std::vector<int64_t> lengths;
    for (const Sample& sample : samples) {
      response_tokens += static_cast<int64_t>(sample.response_tokens());
      all_tokens += sample.row.tokens();
      lengths.push_back(sample.row.tokens());
    }
    const PhaseTimes phases = timer_.Take();
    AddTimings(metrics, phases, response_tokens, all_tokens);
    metrics.Set("timing_s/step", seconds);
    StepPerformance performance;
    performance.tokens = all_tokens;
    performance.seconds = seconds;
    performance.devices = plan_.cores;
    performance.training_devices = plan_.train_cores;
    performance.actor.flops = TrainingFlops(CostOf(*parts_.actor), lengths) *
                              static_cast<double>(config_.worker.actor.ppo_epochs);
    if (parts_.critic)
      performance.critic.flops = TrainingFlops(CostOf(*parts_.critic), lengths) *
                                 static_cast<double>(config_.worker.critic.ppo_epochs);
    performance.peak_tflops = config_.trainer.peak_tflops.value_or(0);
    for (const auto& [phase, time] : phases)
      if (phase == "update_actor")
        performance.actor.seconds = time;
      else if (phase == "update_critic")
        performance.critic.seconds = time;
    AddPerformance(metrics, performance);
    metrics.Set("rollout/worker_restarts", static_cast<double>(parts_.generator->restarts()));
  }

  // A score costs next to nothing.
  static ModelCost CostOf(const MeshModel& trained) {
    const models::ModelConfig& model = trained.config().model.config;
    return {model.layers,
            model.hidden,
            model.intermediate,
            model.heads,
            model.kv_heads,
            model.head_dim,
            model.labels > 0 ? 0 : model.vocab};
  }

  // The last step's validation and checkpoint, unless they were due anyway.
  Status Finish() {
    if (state_.step == 0) return OkStatus();
    if (config_.trainer.val_freq > 0 && validated_step_ != state_.step) NXDKIT_TRY(ValidateAlone());
    const bool saved = saved_step_ == state_.step || resumed_ == state_.step;
    if ((saved && !IsBetter()) || stuck()) return OkStatus();
    return Save();
  }

  const Config& config_;
  const RunPlan& plan_;
  RunParts parts_;
  const TrainHooks& hooks_;
  StepRules rules_;
  TrainerState state_;
  std::optional<BestScore> best_;   // of a checkpoint that is there
  std::optional<BestScore> score_;  // of the last validation
  std::optional<int64_t> resumed_;
  std::optional<MetricLog> log_;
  std::optional<EventFile> events_;
  std::optional<AppendFile> syncs_;
  PhaseTimer timer_;
  SyncedWeights synced_;
  int64_t current_ = 0;  // the step under way
  int64_t synced_step_ = -1, validated_step_ = -1;
  std::optional<int64_t> saved_step_;  // by this process
  std::optional<int64_t> resumable_;   // the last checkpoint that a run can go on from
  std::optional<TrainerState> whole_;  // of which weights and log are; nullopt: amid an update
  std::string phase_;                  // that began last
  int64_t actor_skips_ = 0, critic_skips_ = 0;  // steps in a row
  double lr_ = 0, critic_lr_ = 0;
  MetricRecord last_;
};

}  // namespace

Result<TrainResult> Train(const Config& config, const RunPlan& plan, RunParts parts,
                          const std::string& config_json, const TrainHooks& hooks) {
  return Loop(config, plan, std::move(parts), hooks).Run(config_json);
}

}  // namespace nxdkit::trainer
