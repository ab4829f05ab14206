// PRIVATE to trainer/loop. What the parts of the training loop share: the run that they are of.
#pragma once

#include <algorithm>
#include <string>

#include "trainer/loop/trainer.h"
#include "trainer/model/memory.h"

namespace nxdkit::trainer {

struct LoopContext {
  const Config& config;
  const RunPlan& plan;
  RunParts& parts;
  const TrainHooks& hooks;

  const std::string& root() const { return *config.trainer.save_checkpoint_path; }
  void Note(const std::string& line) const {
    if (hooks.note) hooks.note(line);
  }
  void Warn(const std::string& line) const {
    if (hooks.warn && !line.empty()) hooks.warn(line);
  }
  ops::RunOptions FileOptions(std::function<Status()> poll) const {
    ops::RunOptions run;
    run.jobs = static_cast<int>(std::max<int64_t>(1, plan.cores / plan.nodes));
    run.max_memory = kNoMemoryCap;
    run.poll = std::move(poll);
    return run;
  }
};

}  // namespace nxdkit::trainer
