// PRIVATE to trainer/loop. The phases of a training step between generation and update.
#pragma once

#include <span>
#include <vector>

#include "trainer/algo/advantage.h"
#include "trainer/algo/importance.h"
#include "trainer/algo/kl.h"
#include "trainer/algo/schedule.h"
#include "trainer/loop/loop_context.h"
#include "trainer/loop/run_inputs.h"
#include "trainer/loop/sample.h"
#include "trainer/loop/update_policy.h"
#include "trainer/loop/weight_sync.h"
#include "trainer/report/metrics.h"
#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {

// Values of the configuration, parsed.
struct StepRules {
  AdvantageOptions advantage;
  ImportanceOptions importance;
  PolicyLossOptions loss;
  Schedule schedule;
  ValueLossOptions value_loss;  // for the critic, if there is one
  Schedule critic_schedule;
  std::optional<KlEstimator> reward_kl;  // the penalty in the rewards; nullopt: none
  KlController kl;
};
Result<StepRules> MakeStepRules(const Config& config, const RunPlan& plan, int64_t training_steps);

// Moves rows between the data-parallel ranks so that all have about the same number of tokens. Adds
// global_seqlen/*.
Status BalanceSamples(int dp, std::vector<Sample>& samples, Metrics& metrics);

// Adds the log-probabilities of the actor before the step's updates, and the engine's distance from
// them: rollout/log_prob_gap_mean and _max, and rollout/kl, the mean of the engine's minus the
// actor's, which estimates KL(engine, actor). A gap that is not small indicates that the engine
// used other weights or other arithmetic. kFindings when the mean is over `most_gap`: the engine is
// then not the one it is taken for.
Status AddOldLogProbs(MeshModel& actor, double most_gap, std::vector<Sample>& samples,
                      Metrics& metrics);
// Puts the outputs of the reference or the critic into `to` of each sample.
Status AddOutputs(MeshModel& model, std::vector<float> Sample::*to, std::vector<Sample>& samples);

// The KL penalty, if there is one, then advantages and returns. `beta` is the controller's state.
Status AddAdvantages(const StepRules& rules, double& beta, std::vector<Sample>& samples,
                     Metrics& metrics);

// Multiplies the advantages by the weights of `rules.importance`; nothing when that is off. Adds
// rollout/is_*.
Status WeighByImportance(const StepRules& rules, std::vector<Sample>& samples, Metrics& metrics);

// The durations and proofs of a sync: timing_s/sync_* (parts of gen, or of validation),
// sync/serial, sync/proved and sync/not_covered.
void AddSync(const SyncedWeights& synced, const EngineFacts& loaded, Metrics& metrics);

// <prefix>response_length/*, <prefix>prompt_length/*.
void AddSampleLengths(const Config& config, std::span<const Sample> samples,
                      const std::string& prefix, Metrics& metrics);
// critic/*, and the lengths without a prefix.
void AddBatchStats(const Config& config, std::span<const Sample> samples, Metrics& metrics);

// timing_s/*, perf/*: the times of the step so far.
void AddStepTimes(const LoopContext& run, const RunModels& models, std::span<const Sample> samples,
                  const PhaseTimes& phases, double seconds, Metrics& metrics);

}  // namespace nxdkit::trainer
