// PRIVATE to formats: how far a training run is, beyond what its optimizer counts, in an NxD tag
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
  std::vector<std::string> notes;  // where the numbers are from, and what could not be read
};

// Of a tag: what scheduler.pt and user_content.pt say, and trainer_state.json in the folder around
// it; what nobody says is what the optimizer has counted.
Result<RunProgress> ProgressOfTag(const BoundArtifact& tag);

// The same of a checkpoint by names with an optimizer: what its objects say, else what the
// optimizer has counted.
Result<RunProgress> ProgressOfCheckpoint(const BoundArtifact& checkpoint);

// What TorchTitan of 2025 keeps of a schedule that is at this epoch: all that torch's LambdaLR has,
// by name. Without base_lrs where a group does not say its initial_lr: lr is what became of it, and
// a schedule that begins with it would go on wrong without a word.
// `group`: of this one alone; else an entry for each.
torch::PickleDict ScheduleAt(const BoundOptimizer& optimizer, int64_t last_epoch,
                             std::optional<size_t> group = std::nullopt);
// The schedule of a checkpoint by names that has one, as torch's LambdaLR loads it: what it says,
// and what ScheduleAt has of the rest.
Result<torch::PickleDict> ScheduleOfCheckpoint(const BoundArtifact& checkpoint, int64_t last_epoch);

// What scheduler.pt of a tag that is made of a checkpoint is to hold: what the checkpoint says of
// the schedule, in the form that torch's schedulers load. nullopt when it says nothing, or is as it
// was made of a tag: then the tag's own file is beside it, or there was none.
Result<std::optional<torch::PickleValue>> SchedulerOf(const BoundArtifact& checkpoint);

// What becomes of a user_content.pt beside a checkpoint in the tag that is made of it. Once
// somebody has trained on, what it says is of an earlier step.
struct UserContent {
  enum class Kept : uint8_t { kAsIs, kMade, kNot };
  Kept kept = Kept::kAsIs;
  torch::PickleValue made;  // kMade: the same but for the step
  std::string note;         // where it is not as it is
};
Result<UserContent> UserContentOf(const BoundArtifact& checkpoint);

// What the tag will not have of the checkpoint's run.
Result<std::vector<std::string>> LossesOfRun(const BoundArtifact& checkpoint);

}  // namespace nxdkit::training
