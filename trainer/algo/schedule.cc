#include "trainer/algo/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "trainer/algo/names.h"

namespace nxdkit::trainer {
namespace {

constexpr Named<ScheduleType> kScheduleNames[] = {
    {"constant", ScheduleType::kConstant},
    {"cosine", ScheduleType::kCosine},
};

}  // namespace

Result<ScheduleType> ParseScheduleType(std::string_view name) {
  return FindNamed(kScheduleNames, "optim.lr_scheduler_type", name);
}

double ScheduleFactor(const Schedule& schedule, int64_t step) {
  const int64_t warmup = schedule.warmup_steps;
  if (step < warmup) return static_cast<double>(step) / static_cast<double>(warmup);
  if (schedule.type == ScheduleType::kConstant) return 1;
  const int64_t left = std::max<int64_t>(1, schedule.training_steps - warmup);
  const double progress =
      std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(left));
  const double floor = schedule.min_ratio;
  const double cosine = std::cos(std::numbers::pi * progress);
  return std::max(floor, 0.5 * (1 - floor) * cosine + 0.5 * (1 + floor));
}

int64_t WarmupSteps(int64_t steps, double ratio, int64_t training_steps) {
  if (steps >= 0) return steps;
  return static_cast<int64_t>(std::floor(ratio * static_cast<double>(training_steps)));
}

}  // namespace nxdkit::trainer
