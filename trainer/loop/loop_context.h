// The run that the parts of the training loop serve, and the hooks through which it reports.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "trainer/config/config.h"
#include "trainer/config/plan.h"
#include "trainer/model/memory.h"
#include "trainer/report/metrics.h"

namespace nxdkit::trainer {

struct TrainHooks {
  std::function<Status()> poll;  // called between phases; its error ends the run
  std::function<bool()> save;    // called after each step; true saves an extra checkpoint
  // A phase of this step begins ("gen", "old", ...).
  std::function<void(int64_t step, int64_t steps, const std::string& phase)> phase;
  // A step is done, with its metrics; also validation before training, as step 0 or as the step
  // from which the run continues.
  std::function<void(int64_t step, int64_t steps, const MetricRecord& metrics)> step;
  // The progress of the current phase: responses, scores, rows. Called from any thread.
  std::function<void(int64_t done, int64_t units)> progress;
  std::function<void(const std::string& line)> note;    // for people
  std::function<void(const std::string& line)> warn;    // also for readers of the result
  std::function<void(const std::string& line)> record;  // for the log alone
};

struct LoopContext {
  const Config& config;
  const RunPlan& plan;
  const TrainHooks& hooks;

  const std::string& root() const { return *config.trainer.save_checkpoint_path; }
  void Note(const std::string& line) const {
    if (hooks.note) hooks.note(line);
  }
  void Warn(const std::string& line) const {
    if (hooks.warn && !line.empty()) hooks.warn(line);
  }
  artifact::RunOptions FileOptions(std::function<Status()> poll) const {
    artifact::RunOptions run;
    run.jobs = static_cast<int>(std::max<int64_t>(1, plan.cores / plan.nodes));
    run.max_memory = kNoMemoryCap;
    run.poll = std::move(poll);
    return run;
  }
};

}  // namespace nxdkit::trainer
