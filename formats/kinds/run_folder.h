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
// The number alone, as verl writes it, and EasyR1 did.
inline constexpr std::string_view kStepFiles[] = {"latest_checkpointed_iteration.txt",
                                                  "latest_global_step.txt"};
inline constexpr char kRunModelFolder[] = "huggingface";  // in it: the model for transformers

// "global_step_5" -> 5. The whole name, so that "global_step_5.partial" is not one.
std::optional<int64_t> StepOfFolder(std::string_view name);
std::string StepFolder(int64_t step);

struct RunTracker {
  int64_t step = 0;
  std::optional<int64_t> best_step;  // The step of the best checkpoint, where there is one.
  std::optional<double> best_score;
  std::string file;  // that says so
};
// nullopt where there is none; kCorrupt for one that is cut short, or names no step.
Result<std::optional<RunTracker>> ReadRunTracker(const std::string& root);

struct ChosenStep {
  int64_t step = 0;
  std::optional<Choice> choice;  // where there are several
  std::optional<RunTracker> tracker;
  std::optional<Error> tracker_fault;  // it cannot be followed: the step is the newest one
  std::string doubt;  // the tracker is followed, and a newer step is there; "": none
  // The fault and the doubt, for who goes on with the step.
  std::vector<std::string> Warnings() const;
};
// Takes the checkpoint that the run's tracker names, else the newest; one that is whole before any
// other. The tracker is made of the checkpoints, so that a damaged one stops nobody; one
// that the system does not give is an error.
// `whole`: by step, whether it is; at least one.
Result<ChosenStep> ChooseRunStep(const std::string& root, const std::map<int64_t, bool>& whole);

// The actor of a run, for who names the run, or one of its checkpoints: that of ChooseRunStep,
// whole where it has the marker `done`. Any other path is itself.
struct RunCheckpoint {
  std::string path;
  std::optional<Choice> choice;
  std::vector<std::string> warnings;
};
Result<RunCheckpoint> FindCheckpoint(const std::string& path, const Looker& look = {});
// The checkpoint of a run that `tag` names; nullopt: it names none.
Result<std::optional<RunCheckpoint>> CheckpointNamed(const std::string& path, std::string_view tag,
                                                     const Looker& look = {});

}  // namespace nxdkit::kinds
