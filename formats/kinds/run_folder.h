// PRIVATE: the folder of a grpo-train run (trainer/loop/checkpoint.h), and its checkpoints:
//
//   ROOT/checkpoint_tracker.json    last_global_step
//   ROOT/global_step_N/actor/       an NxD tag
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/artifact/words.h"
#include "lib/base/choice.h"
#include "lib/base/error.h"
#include "lib/system/looker.h"

namespace nxdkit::kinds {

inline constexpr char kRunTracker[] = "checkpoint_tracker.json";
inline constexpr std::string_view kStepPrefix = "global_step_";
inline constexpr char kActorFolder[] = "actor";
inline constexpr char kCriticFolder[] = "critic";
// Files that hold only the number, as verl writes it, and EasyR1 did.
inline constexpr std::string_view kStepFiles[] = {"latest_checkpointed_iteration.txt",
                                                  "latest_global_step.txt"};
inline constexpr char kRunModelFolder[] = "huggingface";  // holds the model for transformers

// "global_step_5" -> 5. Matches the whole name, so that "global_step_5.partial" is not one.
std::optional<int64_t> StepOfFolder(std::string_view name);
std::string StepFolder(int64_t step);

struct RunTracker {
  int64_t step = 0;
  std::optional<int64_t> best_step;  // step of the best checkpoint, if there is one
  std::optional<double> best_score;
  std::string file;  // the file they come from
};
// nullopt if there is none; kCorrupt for one that is cut short, or names no step.
Result<std::optional<RunTracker>> ReadRunTracker(const std::string& root);

struct ChosenStep {
  int64_t step = 0;
  std::optional<Choice> choice;  // if there are several
  std::optional<RunTracker> tracker;
  std::optional<Error> tracker_fault;  // it cannot be followed: the newest step is taken
  std::string doubt;  // the tracker is followed, but there is a newer step; "": none
  // The fault and the doubt, for callers that use the step.
  std::vector<std::string> Warnings() const;
};
// Chooses the checkpoint that the run's tracker names, else the newest; complete ones first. The
// tracker is derived from the checkpoints, so a damaged one is ignored; one that the system cannot
// read is an error. `whole`: by step, whether it is complete; at least one.
Result<ChosenStep> ChooseRunStep(const std::string& root, const std::map<int64_t, bool>& whole);

// The actor for the path of a run, or of one of its checkpoints: that of ChooseRunStep, complete if
// it has the marker `done`. Any other path is returned unchanged.
struct RunCheckpoint {
  std::string path;
  std::optional<Choice> choice;
  std::vector<std::string> warnings;
};
Result<RunCheckpoint> FindCheckpoint(const std::string& path, const Looker& look = {});
// The checkpoint of a run that `tag` names; nullopt if it names none.
Result<std::optional<RunCheckpoint>> CheckpointNamed(const std::string& path, std::string_view tag,
                                                     const Looker& look = {});

}  // namespace nxdkit::kinds
