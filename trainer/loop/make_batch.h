// PRIVATE to trainer/loop. Creates the samples of one training step: prompts from the data, n
// responses each, scored and filtered.
#pragma once

#include <functional>
#include <vector>

#include "trainer/loop/generators.h"
#include "trainer/loop/loop_context.h"
#include "trainer/loop/run_inputs.h"
#include "trainer/loop/sample.h"
#include "trainer/report/metrics.h"

namespace nxdkit::trainer {

using BeginPhase = std::function<Status(const char* phase)>;  // alternately "gen" and "reward"

// The sources of samples, and the receivers of reports.
struct SampleMaking {
  const LoopContext& run;
  RunData& data;
  RunEngines& engines;
  Metrics& metrics;
  BeginPhase begin;
};

// B prompts with n samples each, in the order of the prompts. `prompts_seen` is advanced. With
// online filtering, groups whose samples all have the same score are dropped, and more are
// generated; kFindings when trainer.max_try_make_batch tries were not enough.
Result<std::vector<Sample>> MakeBatch(const SampleMaking& making, int64_t step,
                                      int64_t& prompts_seen);

// Options for `n` samples of each prompt. `first_prompt`: the number of the first prompt, for its
// random draws. Scores are not set.
struct GenerateOptions {
  SamplingParams sampling;
  int64_t n = 1;
  uint64_t seed = 1;
  uint32_t step = 0;
  uint32_t first_prompt = 0;
};
GenerateOptions TrainingOptions(const SampleMaking& making, int64_t step);  // from worker.rollout
Result<std::vector<Sample>> GenerateSamples(const SampleMaking& making,
                                            const std::vector<Prompt>& prompts,
                                            const GenerateOptions& options);

// Sets the scores and the rewards of the tokens: the whole of "overall" on the last one. kCorrupt
// naming the sample when a score is missing or not finite; errors say what the reward was asked.
Status ScoreSamples(const Scorer& score, std::vector<Sample>& samples);

}  // namespace nxdkit::trainer
