// Learning rates over a run. `step` counts the updates of the schedule so far: 0 at the first
// training step, and one more after each training step that updated the actor.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::trainer {

enum class ScheduleType { kConstant, kCosine };
Result<ScheduleType> ParseScheduleType(std::string_view name);

struct Schedule {
  ScheduleType type = ScheduleType::kConstant;
  int64_t warmup_steps = 0;
  int64_t training_steps = 0;  // T; cosine only
  double min_ratio = 0;        // floor of the cosine
};

// The factor of the base learning rate. With warm-up the first step has rate 0, as in the
// reference: step / warmup_steps until the warm-up is over, then 1, or half a cosine down to
// min_ratio at training_steps (and min_ratio after that).
double ScheduleFactor(const Schedule& schedule, int64_t step);

// The number of warm-up steps: `steps`, or if that is negative a share of all training steps,
// rounded down.
int64_t WarmupSteps(int64_t steps, double ratio, int64_t training_steps);

}  // namespace nxdkit::trainer
