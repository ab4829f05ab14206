// The score of the validation set.
#pragma once

#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/plan.h"
#include "trainer/loop/make_batch.h"
#include "trainer/loop/parts.h"
#include "trainer/report/metric_log.h"
#include "trainer/report/metrics.h"

namespace nxdkit::trainer {

struct ValidationResult {
  double score = 0;                 // mean of "overall" over all samples
  std::vector<Generation> samples;  // some of them, for people
};

// Adds val/* to `metrics`. Sampled as worker.rollout.val_override_config says; its n is 1 when it
// says none. Of `hooks` only begin("reward") is called, when all is generated.
Result<ValidationResult> RunValidation(const Config& config, const RunPlan& plan, RunParts& parts,
                                       int64_t step, Metrics& metrics, const BatchHooks& hooks);

}  // namespace nxdkit::trainer
