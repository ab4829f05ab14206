// PRIVATE: the folder of a grpo-train run (trainer/loop/checkpoint.h), and its checkpoints:
//
//   ROOT/checkpoint_tracker.json    last_global_step
//   ROOT/global_step_N/actor/       an NxD tag
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nxdkit::ops {

inline constexpr char kRunTracker[] = "checkpoint_tracker.json";
inline constexpr std::string_view kStepPrefix = "global_step_";
inline constexpr char kActorFolder[] = "actor";
inline constexpr char kRunModelFolder[] = "huggingface";  // in it: the model for transformers

// "global_step_5" -> 5. The whole name, so that "global_step_5.partial" is not one.
std::optional<int64_t> StepOfFolder(std::string_view name);
std::string StepFolder(int64_t step);

// Where the actor of a run lies, for who names the run, or one of its checkpoints: of a run the
// last that the tracker names, else the newest; a finished one (`done`) before any other. Any other
// path is itself.
Result<std::string> CheckpointIn(const std::string& path);
// Of a run, where `tag` names one of its checkpoints.
Result<std::optional<std::string>> CheckpointNamed(const std::string& path, std::string_view tag);

}  // namespace nxdkit::ops
