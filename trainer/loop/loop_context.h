// The run that the parts of the training loop serve, and who hears of it.
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
  std::function<Status()> poll;  // asked between phases; its error ends the run
  std::function<bool()> save;    // asked after each step: true saves a checkpoint beyond save_freq
  // A phase begins ("gen", "old", ...), of this step.
  std::function<void(int64_t step, int64_t steps, const std::string& phase)> phase;
  // A step is done, with its metrics; also validation before training, as step 0 or where the run
  // was resumed.
  std::function<void(int64_t step, int64_t steps, const MetricRecord& metrics)> step;
  // How much of the phase that began last is done: responses, scores, rows. Called from any thread.
  std::function<void(int64_t done, int64_t units)> progress;
  std::function<void(const std::string& line)> note;    // for people
  std::function<void(const std::string& line)> warn;    // for them, and for who reads the answer
  std::function<void(const std::string& line)> record;  // for whoever looks later
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
