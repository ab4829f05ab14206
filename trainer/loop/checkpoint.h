// Checkpoints of a run:
//
//   ROOT/checkpoint_tracker.json   last_global_step, last_actor_path, best_global_step,
//                                  best_val_reward_score
//   ROOT/global_step_N/actor/      NxD v2 tag: model/, optim/ (ZeRO-1 files), config, tokenizer
//   ROOT/global_step_N/actor/huggingface/   the same weights as a model folder, in bf16
//   ROOT/global_step_N/critic/     the same of the critic, in a run that has one
//   ROOT/global_step_N/trainer_state.json   what else the next step depends on
//
// A checkpoint is there whole, under its own name, or not at all; the tracker names only whole
// ones, and old ones are deleted last.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "trainer/learner/mesh_model.h"
#include "trainer/loop/text_files.h"

namespace nxdkit::trainer {

// What a step depends on, beside weights and optimizer. Random numbers are counted by step, prompt,
// sample and token; no checkpoint is written while updates are being skipped.
struct TrainerState {
  int64_t step = 0;            // training steps done
  int64_t schedule_steps = 0;  // of the learning rate
  double kl_beta = 0;
  int64_t prompts_seen = 0;  // counts prompts for their random numbers
  std::string data;          // position in the data, as JSON; the dataset's own
  int tp = 1;                // of the mesh that wrote it: another mesh continues, in other bits
  int dp = 1;
  // The checkpoint that trainer.load_checkpoint_path named when this run began: its name when it is
  // of the same folder, else its path; "" for none.
  std::string started_from;
  // The day that the chat template prints, YYYY-MM-DD; "" where it prints none.
  std::string template_date{};
  bool operator==(const TrainerState&) const = default;
};

struct BestScore {
  int64_t step = 0;
  double score = 0;
};

struct SaveRequest {
  std::string root;
  TrainerState state;
  std::optional<BestScore> best;
  int64_t limit = -1;       // checkpoints to keep, as ObsoleteSteps
  bool model_only = false;  // without optimizer: no run can continue from it
  TextFiles text;
  std::string mark{};  // of who makes it, where several might: Staging::Options::mark
  // Asked when the checkpoint is whole, before it is published.
  std::function<Status()> may_publish = {};
  std::function<void(int64_t step)> on_deleted = {};  // of a checkpoint that was over the limit
};

// A model that is trained, and so belongs to every checkpoint.
struct TrainedModel {
  const char* name;                // of its folder: "actor", "critic"
  MeshModel* model;                //
  const artifact::Artifact* base;  // that the run began with: its configuration and tokenizer
  double lr = 0;                   // for the optimizer's groups
};

Status SaveCheckpoint(const SaveRequest& request, std::span<const TrainedModel> models,
                      const artifact::RunOptions& run);

// "ROOT/global_step_N"
std::string CheckpointFolder(const std::string& root, int64_t step);

struct FoundCheckpoint {
  std::string folder;  // ROOT/global_step_N
  int64_t step = 0;
  std::optional<BestScore> best;
  std::string started_from{};  // what its state becomes; "": it stays as it is
  std::optional<Choice> choice{};
  std::optional<Error> tracker_fault{};
  std::vector<std::string> warnings{};  // of a tracker that is not followed, or is behind
};
// The one that the tracker names, else the last one that is whole (kinds::ChooseRunStep); nullopt:
// a new run. kCorrupt for a tracker that is damaged or names a checkpoint that is gone, and there
// is no other.
Result<std::optional<FoundCheckpoint>> FindLastCheckpoint(const std::string& root);

// What a run in `root` continues from; nullopt: it begins.
//   without `load`           the last one in `root`; with `find_last` false nothing
//   with `load`              that one (its name ends in global_step_N), or the last one in `root`
//                            when that was made by a run from `load`: a run that was stopped goes
//                            on
//   ... `find_last` false    that one
// kCorrupt when `load` names a run, and not a checkpoint of it, and its tracker cannot be followed:
// what is asked for by name is not guessed.
// kUsage when `root` has checkpoints that are neither continued from nor next to `load`: they
// would be mixed with those of the new run.
Result<std::optional<FoundCheckpoint>> ChooseCheckpoint(const std::string& root,
                                                        const std::optional<std::string>& load,
                                                        bool find_last);

// Of the run that made it; "" where it printed no date.
Result<std::string> TemplateDateOf(const FoundCheckpoint& found);

// What killed runs left in `root`: half-made checkpoints and files, and checkpoints that
// another one has replaced. For the holder of the run's lock.
Status RemoveLeftovers(const std::string& root);

// kNotFound when it lacks one of the models or a file, kCorrupt when a file of it is damaged; with
// the last earlier checkpoint beside it as a hint, but for a model that its run had not.
Result<TrainerState> RestoreCheckpoint(const FoundCheckpoint& found,
                                       std::span<const TrainedModel> models,
                                       const artifact::RunOptions& run);

}  // namespace nxdkit::trainer
