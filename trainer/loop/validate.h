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

// Adds val/*. Samples as in worker.rollout.val_override_config; n is 1 if that does not set it.
// making.begin("reward") is called when generation is finished.
Result<ValidationResult> RunValidation(const SampleMaking& making, int64_t step);

}  // namespace nxdkit::trainer
