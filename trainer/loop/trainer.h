// The training loop: sync, generate, reward, log-probabilities, advantages, update, validate, save.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/loop/generators.h"
#include "trainer/loop/loop_context.h"
#include "trainer/loop/run_inputs.h"
#include "trainer/report/metrics.h"

namespace nxdkit::trainer {

struct RunParts {
  RunRecord record;  // destroyed last: it holds the lock of the run's folder
  RunModels models;
  RunEngines engines;
  RunData data;
};

struct TrainResult {
  int64_t first_step = 0;  // the run began after this step
  int64_t last_step = 0;
  MetricRecord last;  // metrics of the last step
};

// Runs up to parts.record.training_steps, from the last checkpoint if the configuration asks for
// it. `config_json` is written to the folder of the run.
Result<TrainResult> Train(const LoopContext& run, RunParts parts, const std::string& config_json);

}  // namespace nxdkit::trainer
