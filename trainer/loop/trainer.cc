#include "trainer/loop/trainer.h"

#include <fmt/core.h>

#include <thread>
#include <utility>

#include "trainer/algo/schedule.h"
#include "trainer/loop/make_batch.h"
#include "trainer/loop/reward_watch.h"
#include "trainer/loop/run_state.h"
#include "trainer/loop/step.h"
#include "trainer/loop/update_policy.h"
#include "trainer/loop/validate.h"

namespace nxdkit::trainer {
namespace {

class Steps {
 public:
  Steps(const LoopContext& run, RunParts& parts, const StepRules& rules, RunState& state,
        RunLogs& logs)
      : run_(run),
        parts_(parts),
        rules_(rules),
        state_(state),
        logs_(logs),
        watch_(rules.advantage.estimator, rules.reward_kl.has_value(),
               state.resumed().has_value()) {}

  Status RunAll() {
    const bool only = config_.trainer.val_only;
    if (parts_.record.attempt && (only || state_.now.step < parts_.record.training_steps))
      NXDKIT_TRY(parts_.record.attempt->ClearDone());
    if (config_.trainer.val_before_train || only) NXDKIT_TRY(ValidateAlone());
    if (only)
      return parts_.record.attempt ? parts_.record.attempt->Done(state_.now.step) : OkStatus();
    while (state_.now.step < parts_.record.training_steps) NXDKIT_TRY(Step());
    run_.Warn(watch_.AtEnd());
    NXDKIT_TRY(Finish());
    return parts_.record.attempt ? parts_.record.attempt->Done(state_.now.step) : OkStatus();
  }
  const std::string& phase() const { return phase_; }  // the last one begun
  const MetricRecord& last() const { return last_; }

 private:
  // `timed_as`: the name of its time if that is part of another phase; nullptr: its own.
  Status Begin(const char* phase, const char* timed_as = nullptr) {
    if (hooks_.poll) NXDKIT_TRY(hooks_.poll());
    phase_ = phase;
    timer_.Begin(timed_as != nullptr ? timed_as : phase);
    if (hooks_.phase) hooks_.phase(current_, parts_.record.training_steps, phase);
    return OkStatus();
  }
  void Tell(const MetricRecord& record) const {
    if (hooks_.step) hooks_.step(state_.now.step, parts_.record.training_steps, record);
  }

  // Generation in this phase uses the weights as they are now.
  Status Sync(const char* phase, Metrics& metrics) {
    if (synced_step_ == state_.now.step) return TellSync(metrics);
    NXDKIT_TRY(Begin("sync", phase));
    // A later attempt of the run writes to the same place.
    if (parts_.record.attempt) NXDKIT_TRY(parts_.record.attempt->Check());
    NXDKIT_ASSIGN(synced_, SyncWeights(*parts_.models.actor, *parts_.models.config,
                                       parts_.models.base.artifact, parts_.engines.sync,
                                       "step " + std::to_string(state_.now.step), ++syncs_,
                                       run_.FileOptions(hooks_.poll)));
    NXDKIT_ASSIGN(loaded_, parts_.engines.generator->Reload(synced_));
    synced_step_ = state_.now.step;
    if (loaded_.not_covered > 0 && syncs_ == 1)
      run_.Note(
          fmt::format("{} of {} parameters cannot be proved: the engine's kernels keep them only "
                      "in another form (trainer/engines/README.md)",
                      loaded_.not_covered, loaded_.proved + loaded_.not_covered));
    NXDKIT_TRY(TellSync(metrics));
    // The times are counted once; a later step that generates with the same weights takes none.
    synced_.seconds.clear();
    loaded_.seconds.clear();
    return OkStatus();
  }
  Status TellSync(Metrics& metrics) {
    AddSync(synced_, loaded_, metrics);
    return logs_.WriteSync(current_, synced_, loaded_);
  }

  Status Step() {
    if (parts_.record.attempt) NXDKIT_TRY(parts_.record.attempt->Check());
    current_ = state_.now.step + 1;
    const double started = timer_.Now();
    Metrics metrics;
    NXDKIT_ASSIGN(const std::vector<Sample> samples, MakeSamples(metrics));
    NXDKIT_TRY(Update(samples, metrics));
    state_.now.step = current_;
    timer_.End();
    AddBatchStats(config_, samples, metrics);
    run_.Warn(watch_.Take(samples, metrics));
    const Status validated = IsDue(config_.trainer.val_freq) ? Validate(metrics) : OkStatus();
    const bool saves = validated.ok() && IsSaveWanted();
    // Before the checkpoint: a run that continues from it must find the step in its log. The times
    // follow when they are known: saving is part of the step.
    if (!saves) AddTimes(samples, started, metrics);
    NXDKIT_TRY(logs_.Write(current_, metrics.Means()));
    state_.EndStep();
    const Status ended = saves ? SaveInStep(samples, started, metrics) : validated;
    last_ = metrics.Means();
    Tell(last_);
    return ended;
  }

  // Samples, generated and scored, with everything that the updates need.
  Result<std::vector<Sample>> MakeSamples(Metrics& metrics) {
    NXDKIT_TRY(Sync("gen", metrics));
    NXDKIT_ASSIGN(std::vector<Sample> samples,
                  MakeBatch({run_, parts_.data, parts_.engines, metrics,
                             [&](const char* phase) { return Begin(phase); }},
                            current_, state_.now.prompts_seen));
    NXDKIT_TRY(BalanceSamples(parts_.models.actor->options().dp, samples, metrics));
    NXDKIT_TRY(Begin("old"));
    NXDKIT_TRY(AddOldLogProbs(*parts_.models.actor, config_.worker.rollout.max_log_prob_gap,
                              samples, metrics));
    if (parts_.models.reference) {
      NXDKIT_TRY(Begin("ref"));
      NXDKIT_TRY(AddOutputs(*parts_.models.reference, &Sample::ref_log_probs, samples));
    }
    if (parts_.models.critic) {
      NXDKIT_TRY(Begin("values"));
      NXDKIT_TRY(AddOutputs(*parts_.models.critic, &Sample::values, samples));
    }
    NXDKIT_TRY(Begin("adv"));
    NXDKIT_TRY(AddAdvantages(rules_, state_.now.kl_beta, samples, metrics));
    NXDKIT_TRY(WeighByImportance(rules_, samples, metrics));
    return samples;
  }

  Status Update(const std::vector<Sample>& samples, Metrics& metrics) {
    NXDKIT_TRY(Begin(parts_.models.critic ? "update_critic" : "update_actor"));
    state_.BeginUpdate();
    if (parts_.models.critic) {
      NXDKIT_TRY(UpdateValues(samples, metrics));
      NXDKIT_TRY(Begin("update_actor"));
    }
    return UpdateActor(samples, metrics);
  }

  Status UpdateActor(const std::vector<Sample>& samples, Metrics& metrics) {
    if (config_.trainer.critic_warmup > current_) return OkStatus();
    state_.lr = state_.LearningRate(rules_);
    const MiniBatchOptions options{run_.plan.rows_per_update, config_.worker.actor.ppo_epochs,
                                   state_.lr, hooks_.progress};
    NXDKIT_ASSIGN(const UpdateSummary summary,
                  UpdatePolicy(*parts_.models.actor, samples, rules_.loss, options, metrics));
    ++state_.now.schedule_steps;
    return state_.CountSkips(summary, "actor");
  }

  // The critic is updated in every step, so its schedule counts steps.
  Status UpdateValues(const std::vector<Sample>& samples, Metrics& metrics) {
    state_.critic_lr =
        config_.worker.critic.optim.lr * ScheduleFactor(rules_.critic_schedule, state_.now.step);
    const MiniBatchOptions options{run_.plan.critic_rows_per_update,
                                   config_.worker.critic.ppo_epochs, state_.critic_lr,
                                   hooks_.progress};
    NXDKIT_ASSIGN(const UpdateSummary summary, UpdateCritic(*parts_.models.critic, samples,
                                                            rules_.value_loss, options, metrics));
    return state_.CountSkips(summary, "critic");
  }

  bool IsDue(int64_t every) const { return every > 0 && state_.now.step % every == 0; }
  bool IsSaveWanted() const {
    const bool asked = hooks_.save && hooks_.save();
    return (asked || IsDue(config_.trainer.save_freq)) && !state_.stuck();
  }

  Status Validate(Metrics& metrics) {
    if (parts_.data.validation.empty()) return OkStatus();
    if (synced_step_ != state_.now.step) NXDKIT_TRY(Sync("validation", metrics));
    NXDKIT_TRY(Begin("validation"));
    // A fault of its reward is not a fault of the weights either: see SaveOnError.
    NXDKIT_ASSIGN(const ValidationResult result,
                  RunValidation({run_, parts_.data, parts_.engines, metrics,
                                 [&](const char* phase) { return Begin(phase, "validation"); }},
                                state_.now.step));
    timer_.End();
    validated_step_ = state_.now.step;
    NXDKIT_TRY(logs_.metrics.WriteGenerations(state_.now.step, result.samples));
    state_.SetScore(result.score);
    return OkStatus();
  }

  // Times of phases outside steps.
  void TakeTimes(Metrics& metrics) {
    for (const auto& [phase, seconds] : timer_.Take()) metrics.Set("timing_s/" + phase, seconds);
  }

  Status ValidateAlone() {
    current_ = state_.now.step;
    Metrics metrics;
    NXDKIT_TRY(Validate(metrics));
    TakeTimes(metrics);
    const MetricRecord record = metrics.Means();
    if (record.empty()) return OkStatus();
    NXDKIT_TRY(logs_.Write(state_.now.step, record));
    Tell(record);
    return OkStatus();
  }

  Status SaveTimed() {
    NXDKIT_TRY(Begin("save_checkpoint"));
    const Status saved = state_.Save(logs_, hooks_.poll, config_.trainer.save_model_only);
    timer_.End();
    return saved;
  }

  Status SaveInStep(const std::vector<Sample>& samples, double started, Metrics& metrics) {
    const Status saved = SaveTimed();
    Metrics times;
    AddTimes(samples, started, times);
    const Status written = logs_.Write(state_.now.step, times.Means());
    metrics.Merge(times);
    return saved.ok() ? written : saved;
  }

  // Adds the times of the step so far.
  void AddTimes(const std::vector<Sample>& samples, double started, Metrics& metrics) {
    const double seconds = timer_.Now() - started;
    AddStepTimes(run_, parts_.models, samples, timer_.Take(), seconds, metrics);
    metrics.Set("rollout/worker_restarts",
                static_cast<double>(parts_.engines.generator->restarts()));
    if (const Transport* transport = parts_.models.actor->options().transport) {
      const uint64_t sent = transport->sent_bytes();
      metrics.Set("perf/sent_bytes", static_cast<double>(sent - std::exchange(sent_bytes_, sent)));
    }
  }

  // The last step's validation and checkpoint, unless they were due anyway.
  Status Finish() {
    if (state_.now.step == 0) return OkStatus();
    if (config_.trainer.val_freq > 0 && validated_step_ != state_.now.step)
      NXDKIT_TRY(ValidateAlone());
    if (!state_.IsToBeSaved()) return OkStatus();
    NXDKIT_TRY(SaveTimed());
    Metrics took;
    TakeTimes(took);
    return logs_.Write(state_.now.step, took.Means());
  }

  const LoopContext& run_;
  const Config& config_ = run_.config;
  RunParts& parts_;
  const TrainHooks& hooks_ = run_.hooks;
  const StepRules& rules_;
  RunState& state_;
  RunLogs& logs_;
  RewardWatch watch_;
  PhaseTimer timer_;
  int64_t current_ = 0;  // the step under way
  int64_t synced_step_ = -1, validated_step_ = -1;
  int64_t syncs_ = 0;
  uint64_t sent_bytes_ = 0;  // to other processes, at the end of the step before
  SyncedWeights synced_;     // last
  EngineFacts loaded_;
  std::string phase_;
  MetricRecord last_;
};

// A batch system sends its signal to every process of a job: a reward program or an engine ended by
// it is not at fault, and the signal may reach this process a moment later.
Error InterruptionOr(const Error& error, const TrainHooks& hooks) {
  if (error.code() == Errc::kInterrupted || !hooks.poll) return error;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const Status stopped = hooks.poll();
  return stopped.ok() ? error : stopped.error();
}

}  // namespace

Result<TrainResult> Train(const LoopContext& run, RunParts parts, const std::string& config_json) {
  NXDKIT_ASSIGN(const StepRules rules,
                MakeStepRules(run.config, run.plan, parts.record.training_steps));
  RunState state(run, parts.models, *parts.data.train, parts.record);
  NXDKIT_TRY(state.Resume(rules));
  NXDKIT_ASSIGN(RunLogs logs, RunLogs::Open(run, state.resumed(), config_json));
  const int64_t first_step = state.now.step;
  Steps steps(run, parts, rules, state, logs);
  const Status ran = steps.RunAll();
  if (!ran.ok()) {
    const Error error = InterruptionOr(ran.error(), run.hooks);
    state.SaveOnError(error, steps.phase(), logs);
    return error;
  }
  return TrainResult{first_step, state.now.step, steps.last()};
}

}  // namespace nxdkit::trainer
