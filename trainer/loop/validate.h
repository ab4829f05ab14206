// PRIVATE to trainer/loop. The score of the validation set.
#pragma once

#include <vector>

#include "trainer/loop/make_batch.h"
#include "trainer/report/metric_log.h"

namespace nxdkit::trainer {

struct ValidationResult {
  double score = 0;                 // mean of "overall" over all samples
  std::vector<Generation> samples;  // some of them, for people
};

// Adds val/* to `metrics`. Sampled as worker.rollout.val_override_config says; its n is 1 when it
// says none. begin("reward") is called when all is generated.
Result<ValidationResult> RunValidation(const LoopContext& run, int64_t step, Metrics& metrics,
                                       const BeginPhase& begin);

}  // namespace nxdkit::trainer
