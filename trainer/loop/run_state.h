// PRIVATE to trainer/loop. The progress of a run, and the part of it that is in checkpoints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/loop/checkpoint.h"
#include "trainer/loop/loop_context.h"
#include "trainer/loop/run_inputs.h"
#include "trainer/loop/step.h"
#include "trainer/loop/weight_sync.h"
#include "trainer/report/event_file.h"
#include "trainer/report/metric_log.h"

namespace nxdkit::trainer {

// The logs of a run: metrics and samples (report/metric_log.h), the weights used for each
// generation, and TensorBoard's events.
struct RunLogs {
  // Continues after step `resumed`, or starts new logs.
  static Result<RunLogs> Open(const LoopContext& run, std::optional<int64_t> resumed,
                              const std::string& config_json);

  Status Write(int64_t step, const MetricRecord& record);
  // `step`: the one for which the weights were synced.
  Status WriteSync(int64_t step, const SyncedWeights& synced, const EngineFacts& loaded);

  MetricLog metrics;  // and samples
  AppendFile syncs;
  std::optional<EventFile> events;
};

class RunState {
 public:
  // Saves and restores the actor, the critic, and the place in `train`.
  RunState(const LoopContext& run, const RunModels& models, PromptFeed& train,
           const RunRecord& record)
      : run_(run), models_(models), train_(train), record_(record) {}

  TrainerState now;              // after the last step; during one, its progress so far
  double lr = 0, critic_lr = 0;  // in the last updates

  // Resumes from the checkpoint that the configuration chooses, if any.
  Status Resume(const StepRules& rules);
  std::optional<int64_t> resumed() const { return resumed_; }  // the step of that checkpoint
  double LearningRate(const StepRules& rules) const;           // for the next update

  // From here to EndStep the weights belong to no step.
  void BeginUpdate() { whole_.reset(); }
  void EndStep();
  // Counts consecutive steps in which a model ("actor", "critic") had no finite gradient: kFindings
  // when there are trainer.max_skipped_steps.
  Status CountSkips(const UpdateSummary& summary, std::string_view model);
  // Steps without an update must not displace a good checkpoint.
  bool stuck() const { return actor_skips_ > 0 || critic_skips_ > 0; }

  void SetScore(double score) { score_ = BestScore{now.step, score}; }  // from a validation
  // Whether the last checkpoint is still to be written, or not yet known to be the best.
  bool IsToBeSaved() const;

  // Saves the last complete step.
  Status Save(RunLogs& logs, const std::function<Status()>& poll, bool model_only);
  // Saves before the run ends with an error: a run that is interrupted, or whose reward or workers
  // fail, loses the current step, but not those since the last checkpoint from which a run can
  // continue. `phase`: where the error occurred.
  void SaveOnError(const Error& error, std::string_view phase, RunLogs& logs);

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
  std::optional<BestScore> best_;      // with a checkpoint that exists
  std::optional<BestScore> score_;     // from the last validation
  std::optional<TrainerState> whole_;  // matches weights and log; nullopt: during an update
  std::optional<int64_t> resumed_;
  std::optional<int64_t> saved_;      // by this process
  std::optional<int64_t> resumable_;  // the last checkpoint from which a run can continue
  int64_t actor_skips_ = 0, critic_skips_ = 0;
};

}  // namespace nxdkit::trainer
