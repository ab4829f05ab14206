// Makes the parts of a run from a checked configuration: model, tokenizer, data, reward, actor,
// engines.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/hardware/instance.h"
#include "lib/base/choice.h"
#include "trainer/config/check.h"
#include "trainer/loop/trainer.h"
#include "trainer/rollout/neuron_environment.h"

namespace nxdkit::trainer {

class Leader;
class Transport;

struct SetupOptions {
  // The words that run a rollout worker (rollout/worker.h); [0] is a path.
  std::vector<std::string> worker_command;
  RolloutEnvironment rollout_environment;  // for the workers: `of` empty, or one for each
  // The instance that the run must fit; nullptr: only this machine's memory is checked.
  const hardware::Instance* instance = nullptr;
  // The transport of a run on several machines, led by this process; nullptr: it is alone.
  Transport* transport = nullptr;
  Leader* leader = nullptr;
  std::vector<std::string> worker_logs;  // for their standard error: empty, or one file each
  std::function<void(const Choice&)> on_choice;  // told which of several files was taken
};

// Setup calls the hooks poll, progress, note and warn, no others.
struct SetupContext : LoopContext {
  const LoadedConfig& loaded;
  const SetupOptions& options;

  void Tell(const Choice& choice) const {
    Note(ChoiceText(choice));
    if (options.on_choice) options.on_choice(choice);
  }
};

// The plan is that of the configuration; the folder of the run exists and is locked by the caller.
// Without worker.rollout.model_path a bundle for the CPU is created in
// save_checkpoint_path/rollout_bundle. Errors name the file or the key.
//
// CheckParts: the checks that MakeParts makes before it loads weights, without creating anything:
// the run's folder, the models' shapes, memory, tokenizer, data, reward. It returns the length of
// the run.
struct CheckedRun {
  int64_t done = 0;            // the step of the checkpoint that the run continues from; 0: none
  int64_t training_steps = 0;  // of the whole run
};
Result<CheckedRun> CheckParts(const SetupContext& setup);
Result<RunParts> MakeParts(const SetupContext& setup);

}  // namespace nxdkit::trainer
