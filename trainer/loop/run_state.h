// PRIVATE to trainer/loop. How far a run is, and what of it is in checkpoints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/loop/checkpoint.h"
#include "trainer/loop/loop_context.h"
#include "trainer/loop/run_parts.h"
#include "trainer/loop/step.h"
#include "trainer/loop/weight_sync.h"
#include "trainer/report/event_file.h"
#include "trainer/report/metric_log.h"

namespace nxdkit::trainer {

// The logs of a run: metrics and samples (report/metric_log.h), which weights generated what, and
// TensorBoard's events.
struct RunLogs {
  // Continued after step `resumed`, without one begun.
  static Result<RunLogs> Open(const LoopContext& run, std::optional<int64_t> resumed,
                              const std::string& config_json);

  Status Write(int64_t step, const MetricRecord& record);
  // `step`: the one that the weights were synced for.
  Status WriteSync(int64_t step, const SyncedWeights& synced, const EngineFacts& loaded);

  MetricLog metrics;  // and samples
  AppendFile syncs;
  std::optional<EventFile> events;
};

class RunState {
 public:
  // The actor and the critic are saved and restored, and the place in `train`.
  RunState(const LoopContext& run, const RunModels& models, PromptFeed& train,
           const RunRecord& record)
      : run_(run), models_(models), train_(train), record_(record) {}

  TrainerState now;              // after the last step; within one, as far as it has come
  double lr = 0, critic_lr = 0;  // of the last updates

  // From the checkpoint that the configuration chooses, if it chooses one.
  Status Resume(const StepRules& rules);
  std::optional<int64_t> resumed() const { return resumed_; }  // the step of that checkpoint
  double LearningRate(const StepRules& rules) const;           // of the next update

  // From here to EndStep the weights are of no step.
  void BeginUpdate() { whole_.reset(); }
  void EndStep();
  // Counts steps in a row in which a model ("actor", "critic") had no finite gradient: kFindings
  // when they are trainer.max_skipped_steps.
  Status CountSkips(const UpdateSummary& summary, std::string_view model);
  // Steps that updated nothing push no good checkpoint out.
  bool stuck() const { return actor_skips_ > 0 || critic_skips_ > 0; }

  void SetScore(double score) { score_ = BestScore{now.step, score}; }  // of a validation
  // The checkpoint that is written last is missing, or is not yet known to be the best.
  bool IsToBeSaved() const;

  // Of the last whole step.
  Status Save(RunLogs& logs, const std::function<Status()>& poll, bool model_only);
  // A run that is interrupted, or whose reward or workers fail, loses the step under way, not those
  // since the last checkpoint that a run can continue from. `phase`: in which the error occurred.
  void SaveBeforeLeaving(const Error& error, std::string_view phase, RunLogs& logs);

 private:
  std::string ResumeNote(const std::string& folder, const StepRules& rules) const;
  std::vector<TrainedModel> Models() const;
  bool IsBetter() const {
    return score_ && score_->step == now.step && (!best_ || score_->score > best_->score);
  }

  const LoopContext& run_;
  const RunModels& models_;
  PromptFeed& train_;
  const RunRecord& record_;
  std::optional<BestScore> best_;      // of a checkpoint that is there
  std::optional<BestScore> score_;     // of the last validation
  std::optional<TrainerState> whole_;  // of which weights and log are; nullopt: amid an update
  std::optional<int64_t> resumed_;
  std::optional<int64_t> saved_;      // by this process
  std::optional<int64_t> resumable_;  // the last checkpoint that a run can continue from
  int64_t actor_skips_ = 0, critic_skips_ = 0;
};

}  // namespace nxdkit::trainer
