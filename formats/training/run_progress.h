// PRIVATE to formats: the progress of a training run, beyond its optimizer's counts, in an NxD tag
// and in a distributed checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::training {

inline constexpr std::string_view kScheduler = "lr_scheduler.";
inline constexpr char kLastEpochKey[] = "lr_scheduler.last_epoch";
inline constexpr char kTrainStepKey[] = "train_state.step";
inline constexpr char kTokensSeenKey[] = "train_state.ntokens_seen";

inline constexpr char kSchedulerFile[] = "scheduler.pt";
inline constexpr char kTrainerStateFile[] = "trainer_state.json";
inline constexpr char kUserContentFile[] = "user_content.pt";

struct RunProgress {
  int64_t step = 0;        // of training
  int64_t last_epoch = 0;  // of the learning rate's schedule
  std::optional<int64_t> tokens;
  std::vector<std::string> notes;  // sources of the numbers, and files that could not be read
};

// A tag's progress, from scheduler.pt and user_content.pt, and trainer_state.json in the folder
// around it; missing numbers are those that the optimizer has counted.
Result<RunProgress> ProgressOfTag(const BoundArtifact& tag);

// The same for a checkpoint by names with an optimizer: from its objects, else from the optimizer's
// counts.
Result<RunProgress> ProgressOfCheckpoint(const BoundArtifact& checkpoint);

// The state that TorchTitan of 2025 stores for a schedule at this epoch: all of torch's LambdaLR,
// by name. Without base_lrs if a group does not give its initial_lr: lr is the current rate, and a
// schedule that began with it would silently continue wrong. `group`: only this one; else an entry
// for each.
torch::PickleDict ScheduleAt(const BoundOptimizer& optimizer, int64_t last_epoch,
                             std::optional<size_t> group = std::nullopt);
// The schedule of a checkpoint by names that has one, as torch's LambdaLR loads it: its own values,
// and the rest from ScheduleAt.
Result<torch::PickleDict> ScheduleOfCheckpoint(const BoundArtifact& checkpoint, int64_t last_epoch);

// The contents of scheduler.pt for a tag that is made from a checkpoint: the checkpoint's schedule,
// in the form that torch's schedulers load. nullopt if it has none, or is unchanged since it was
// made from a tag: then the tag's own file is next to it, or there was none.
Result<std::optional<torch::PickleValue>> SchedulerOf(const BoundArtifact& checkpoint);

// The treatment of a user_content.pt next to a checkpoint when a tag is made from it. After more
// training, its numbers are of an earlier step.
struct UserContent {
  enum class Kept : uint8_t { kAsIs, kMade, kNot };
  Kept kept = Kept::kAsIs;
  torch::PickleValue made;  // kMade: the same except for the step
  std::string note;         // if it changes
};
Result<UserContent> UserContentOf(const BoundArtifact& checkpoint);

// The parts of the checkpoint's run that the tag will not have.
Result<std::vector<std::string>> LossesOfRun(const BoundArtifact& checkpoint);

}  // namespace nxdkit::training
