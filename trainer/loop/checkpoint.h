// Checkpoints of a run:
//
//   ROOT/checkpoint_tracker.json   last_global_step, last_actor_path, best_global_step,
//                                  best_val_reward_score
//   ROOT/global_step_N/actor/      NxD v2 tag: model/, optim/ (ZeRO-1 files), config, tokenizer
//   ROOT/global_step_N/actor/huggingface/   the same weights as a model folder, in bf16
//   ROOT/global_step_N/critic/     the same for the critic, if the run has one
//   ROOT/global_step_N/trainer_state.json   everything else that the next step depends on
//
// A checkpoint exists complete, under its own name, or not at all; the tracker names only complete
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

// The state on which a step depends, other than weights and optimizer. Random numbers are counted
// by step, prompt, sample and token; no checkpoint is written while updates are being skipped.
struct TrainerState {
  int64_t step = 0;            // training steps done
  int64_t schedule_steps = 0;  // of the learning rate
  double kl_beta = 0;
  int64_t prompts_seen = 0;  // counts prompts for their random numbers
  std::string data;          // position in the data, as JSON; the dataset's own
  int tp = 1;                // of the mesh that wrote it; with another mesh the bits differ
  int dp = 1;
  // The checkpoint that trainer.load_checkpoint_path named when this run began: its name if it is
  // in the same folder, else its path; "" for none.
  std::string started_from;
  // The date printed by the chat template, YYYY-MM-DD; "" if it prints none.
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
  std::string mark{};  // the writer's mark, if there might be several: Staging::Options::mark
  // Called when the checkpoint is complete, before it is published.
  std::function<Status()> may_publish = {};
  std::function<void(int64_t step)> on_deleted = {};  // for each checkpoint over the limit
};

// A model that is trained, and thus part of every checkpoint.
struct TrainedModel {
  const char* name;                // the name of its folder: "actor", "critic"
  MeshModel* model;                //
  const artifact::Artifact* base;  // the initial model: its configuration and tokenizer
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
  std::string started_from{};  // the new value of its state's; "": unchanged
  std::optional<Choice> choice{};
  std::optional<Error> tracker_fault{};
  std::vector<std::string> warnings{};  // about a tracker that is not followed, or is out of date
};
// The checkpoint that the tracker names, else the last complete one (kinds::ChooseRunStep);
// nullopt: a new run. kCorrupt when the tracker is damaged, or names a missing checkpoint, and
// there is no other.
Result<std::optional<FoundCheckpoint>> FindLastCheckpoint(const std::string& root);

// The checkpoint from which a run in `root` continues; nullopt: it starts anew.
//   without `load`           the last one in `root`; with `find_last` false nothing
//   with `load`              that one (its name ends in global_step_N), or the last one in `root`
//                            if that was made by a run started from `load`: a stopped run continues
//   ... `find_last` false    that one
// kCorrupt when `load` names a run rather than a checkpoint, and its tracker cannot be followed: a
// checkpoint requested by name is not guessed. kUsage when `root` has checkpoints that are neither
// continued nor next to `load`: they would be mixed with those of the new run.
Result<std::optional<FoundCheckpoint>> ChooseCheckpoint(const std::string& root,
                                                        const std::optional<std::string>& load,
                                                        bool find_last);

// The date of the run that made it; "" if it printed none.
Result<std::string> TemplateDateOf(const FoundCheckpoint& found);

// Removes the remains of killed runs from `root`: incomplete checkpoints and files, and replaced
// checkpoints. For the holder of the run's lock.
Status RemoveLeftovers(const std::string& root);

// kNotFound when it lacks one of the models or a file, kCorrupt when one of its files is damaged;
// with the last earlier checkpoint as a hint, except for a model that its run did not have.
Result<TrainerState> RestoreCheckpoint(const FoundCheckpoint& found,
                                       std::span<const TrainedModel> models,
                                       const artifact::RunOptions& run);

}  // namespace nxdkit::trainer
