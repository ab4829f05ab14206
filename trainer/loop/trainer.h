// The training loop: sync, generate, reward, log-probabilities, advantages, update, validate, save.
#pragma once

#include <functional>
#include <string>

#include "trainer/config/config.h"
#include "trainer/config/plan.h"
#include "trainer/loop/parts.h"
#include "trainer/report/metrics.h"

namespace nxdkit::trainer {

struct TrainHooks {
  std::function<Status()> poll;  // asked between phases; its error ends the run
  std::function<bool()> save;    // asked after each step: true saves a checkpoint beyond save_freq
  // A phase begins ("gen", "old", ...), of this step.
  std::function<void(int64_t step, int64_t steps, const std::string& phase)> phase;
  // A step is done, with its metrics; also validation before training, as step 0 or where the run
  // was resumed.
  std::function<void(int64_t step, int64_t steps, const MetricRecord& metrics)> step;
  ProgressHook progress;                                // of the phase that began last
  std::function<void(const std::string& line)> note;    // for people
  std::function<void(const std::string& line)> warn;    // for them, and for who reads the answer
  std::function<void(const std::string& line)> record;  // for whoever looks later
};

struct TrainResult {
  int64_t first_step = 0;  // the run began after this one
  int64_t last_step = 0;
  MetricRecord last;  // metrics of the last step
};

// Runs to parts.training_steps, from the last checkpoint if the configuration says so. The folder
// of the run is config.trainer.save_checkpoint_path. `config_json` goes into it.
Result<TrainResult> Train(const Config& config, const RunPlan& plan, RunParts parts,
                          const std::string& config_json, const TrainHooks& hooks);

}  // namespace nxdkit::trainer
