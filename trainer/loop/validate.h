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

// Adds val/*. Sampled as worker.rollout.val_override_config says; its n is 1 when it
// says none. making.begin("reward") is called when all is generated.
Result<ValidationResult> RunValidation(const SampleMaking& making, int64_t step);

}  // namespace nxdkit::trainer
