// PRIVATE to trainer/loop. The samples of one training step: prompts from the data, n responses
// each, scored, filtered.
#pragma once

#include <functional>
#include <vector>

#include "trainer/loop/generators.h"
#include "trainer/loop/loop_context.h"
#include "trainer/loop/run_parts.h"
#include "trainer/loop/sample.h"
#include "trainer/report/metrics.h"

namespace nxdkit::trainer {

using BeginPhase = std::function<Status(const char* phase)>;  // "gen" and "reward", in turn

// The sources of samples, and who hears of them.
struct SampleMaking {
  const LoopContext& run;
  RunData& data;
  RunEngines& engines;
  Metrics& metrics;
  BeginPhase begin;
};

// B prompts with n samples each, in the order of the prompts. `prompts_seen` counts on. With online
// filtering groups that all samples agree on are dropped and more are generated; kFindings when
// trainer.max_try_make_batch tries did not suffice.
Result<std::vector<Sample>> MakeBatch(const SampleMaking& making, int64_t step,
                                      int64_t& prompts_seen);

// `n` samples of each prompt. `first_prompt`: number of the first for its random draws. Scores are
// not set.
struct GenerateOptions {
  SamplingParams sampling;
  int64_t n = 1;
  uint64_t seed = 1;
  uint32_t step = 0;
  uint32_t first_prompt = 0;
};
GenerateOptions TrainingOptions(const SampleMaking& making, int64_t step);  // of worker.rollout
Result<std::vector<Sample>> GenerateSamples(const SampleMaking& making,
                                            const std::vector<Prompt>& prompts,
                                            const GenerateOptions& options);

// Sets scores and the rewards of the tokens: all of "overall" on the last one. kCorrupt naming the
// sample when a score is missing or not finite; errors say what the reward was asked.
Status ScoreSamples(const Scorer& score, std::vector<Sample>& samples);

}  // namespace nxdkit::trainer
