// From a checked configuration to the parts of a run: model, tokenizer, data, reward, actor,
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
  // The instance that the run is to fit; nullptr: only this machine's memory is asked.
  const hardware::Instance* instance = nullptr;
  // The wire of a run on several machines, led by this process; nullptr: it is alone.
  Transport* transport = nullptr;
  Leader* leader = nullptr;
  std::vector<std::string> worker_logs;  // where their standard error goes: empty, or a file each
  std::function<void(const Choice&)> on_choice;  // told what was taken of several
};

// Setup asks the hooks poll, progress, note and warn, no others.
struct SetupContext : LoopContext {
  const LoadedConfig& loaded;
  const SetupOptions& options;

  void Tell(const Choice& choice) const {
    Note(ChoiceText(choice));
    if (options.on_choice) options.on_choice(choice);
  }
};

// The plan is that of the configuration; the folder of the run is there, and locked by the caller.
// Without worker.rollout.model_path the bundle is made: into save_checkpoint_path/rollout_bundle,
// for the CPU. Errors name the file or the key.
//
// CheckParts: what MakeParts would refuse before it loads weights, with nothing made: the run's
// folder, the models' shapes, memory, tokenizer, data, reward.
// Its answer is how long the run is.
struct CheckedRun {
  int64_t done = 0;            // the step of the checkpoint that the run continues from; 0: none
  int64_t training_steps = 0;  // of the whole run
};
Result<CheckedRun> CheckParts(const SetupContext& setup);
Result<RunParts> MakeParts(const SetupContext& setup);

}  // namespace nxdkit::trainer
