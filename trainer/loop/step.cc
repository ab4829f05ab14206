#include "trainer/loop/step.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainer/algo/balance.h"

namespace nxdkit::trainer {
namespace {

// The difference between the engine's and the trainer's log-probabilities of the same tokens.
Status AddGap(double most_gap, std::span<const Sample> samples, Metrics& metrics) {
  double sum = 0, worst = 0, kl = 0;
  int64_t tokens = 0;
  for (const Sample& sample : samples)
    for (size_t i = 0; i < sample.engine_log_probs.size(); ++i, ++tokens) {
      const double difference = double{sample.engine_log_probs[i]} - sample.old_log_probs[i];
      const double gap = std::abs(difference);
      kl += difference;
      sum += gap;
      worst = std::max(worst, gap);
    }
  if (tokens == 0) return OkStatus();
  const double mean = sum / static_cast<double>(tokens);
  metrics.Set("rollout/log_prob_gap_mean", mean);
  metrics.Set("rollout/log_prob_gap_max", worst);
  metrics.Set("rollout/kl", kl / static_cast<double>(tokens));
  if (mean <= most_gap) return OkStatus();
  return Error(Errc::kFindings,
               fmt::format("the engine's log-probabilities differ from the trainer's by {:.3g} in "
                           "the mean over the same {} tokens (at most {:.3g}), over the bound of "
                           "{}: it generates with other weights, or at another temperature",
                           mean, tokens, worst, most_gap))
      .member("worker.rollout.max_log_prob_gap");
}

Status Penalize(const StepRules& rules, double& beta, std::vector<Sample>& samples,
                Metrics& metrics) {
  std::vector<KlRow> rows;
  for (Sample& sample : samples)
    rows.push_back({sample.old_log_probs, sample.ref_log_probs, sample.rewards});
  NXDKIT_ASSIGN(const double divergence, PenalizeRewards(*rules.reward_kl, beta, rows));
  metrics.Set("actor/kl_penalty", divergence);
  metrics.Set("actor/kl_coef", beta);
  KlController controller = rules.kl;
  controller.beta = beta;
  controller.Update(divergence, std::ssize(samples));
  beta = controller.beta;
  return OkStatus();
}

Result<Schedule> MakeSchedule(const OptimConfig& optim, int64_t training_steps) {
  Schedule schedule;
  NXDKIT_ASSIGN(schedule.type, ParseScheduleType(optim.lr_scheduler_type));
  schedule.warmup_steps = WarmupSteps(optim, training_steps);
  schedule.training_steps = training_steps;
  schedule.min_ratio = optim.min_lr_ratio.value_or(0);
  return schedule;
}

// A score costs next to nothing.
ModelCost CostOf(const MeshModel& trained) {
  const models::ModelConfig& model = trained.config().model.config;
  return {model.layers,
          model.hidden,
          model.intermediate,
          model.heads,
          model.kv_heads,
          model.head_dim,
          model.labels > 0 ? 0 : model.vocab};
}

}  // namespace

Result<StepRules> MakeStepRules(const Config& config, const RunPlan& plan, int64_t training_steps) {
  const AlgorithmConfig& algorithm = config.algorithm;
  const ActorConfig& actor = config.worker.actor;
  StepRules rules;
  NXDKIT_ASSIGN(rules.advantage.estimator, ParseAdvantageEstimator(algorithm.adv_estimator));
  rules.advantage.gamma = algorithm.gamma;
  rules.advantage.lambda = algorithm.lam;
  rules.advantage.samples = plan.samples;
  NXDKIT_ASSIGN(rules.loss.type, ParseLossType(actor.loss_type));
  NXDKIT_ASSIGN(rules.loss.average, ParseLossAverage(actor.loss_avg_mode));
  NXDKIT_ASSIGN(rules.importance.level, ParseImportanceLevel(algorithm.rollout_is));
  rules.importance.threshold = algorithm.rollout_is_threshold;
  rules.loss.clip_low = actor.clip_ratio_low;
  rules.loss.clip_high = actor.clip_ratio_high;
  rules.loss.clip_dual = actor.clip_ratio_dual;
  rules.loss.tau_positive = actor.tau_positive;
  rules.loss.tau_negative = actor.tau_negative;
  rules.loss.kl_coef = algorithm.kl_coef;
  NXDKIT_TRY(CheckPolicyLossOptions(rules.loss));
  NXDKIT_ASSIGN(rules.schedule, MakeSchedule(actor.optim, training_steps));
  const CriticConfig& critic = config.worker.critic;
  NXDKIT_ASSIGN(rules.value_loss.average, ParseLossAverage(critic.loss_avg_mode));
  rules.value_loss.clip_range = critic.cliprange_value;
  NXDKIT_ASSIGN(rules.critic_schedule, MakeSchedule(critic.optim, training_steps));
  if (algorithm.disable_kl) return rules;
  NXDKIT_ASSIGN(const KlEstimator estimator, ParseKlEstimator(algorithm.kl_penalty));
  (algorithm.use_kl_loss ? rules.loss.kl : rules.reward_kl) = estimator;
  NXDKIT_ASSIGN(rules.kl.type, ParseKlControl(algorithm.kl_type));
  rules.kl.target = algorithm.kl_target;
  rules.kl.horizon = algorithm.kl_horizon;
  return rules;
}

Status BalanceSamples(int dp, std::vector<Sample>& samples, Metrics& metrics) {
  std::vector<int64_t> lengths;
  for (const Sample& sample : samples) lengths.push_back(sample.row.tokens());
  NXDKIT_ASSIGN(const Balance balance, BalanceRows(lengths, dp));
  std::vector<Sample> ordered;
  for (const int64_t row : balance.order)
    ordered.push_back(std::move(samples[static_cast<size_t>(row)]));
  samples = std::move(ordered);
  const auto set = [&](const char* name, int64_t value) {
    metrics.Set(std::string("global_seqlen/") + name, static_cast<double>(value));
  };
  set("min", balance.min);
  set("max", balance.max);
  set("minmax_diff", balance.minmax_diff());
  set("balanced_min", balance.balanced_min);
  set("balanced_max", balance.balanced_max);
  metrics.Set("global_seqlen/mean", balance.mean);
  return OkStatus();
}

Status AddOldLogProbs(MeshModel& actor, double most_gap, std::vector<Sample>& samples,
                      Metrics& metrics) {
  NXDKIT_ASSIGN(RowOutputs found, actor.Evaluate(RowsOf(samples)));
  NXDKIT_CHECK(found.entropies.size() == samples.size());  // a critic has none
  double entropy = 0;
  int64_t tokens = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].old_log_probs = std::move(found.outputs[i]);
    for (const float value : found.entropies[i]) entropy += value;
    tokens += std::ssize(found.entropies[i]);
  }
  metrics.Set("actor/entropy", entropy / static_cast<double>(std::max<int64_t>(1, tokens)));
  return AddGap(most_gap, samples, metrics);
}

Status AddOutputs(MeshModel& model, std::vector<float> Sample::*to, std::vector<Sample>& samples) {
  NXDKIT_ASSIGN(RowOutputs found, model.Evaluate(RowsOf(samples)));
  for (size_t i = 0; i < samples.size(); ++i) samples[i].*to = std::move(found.outputs[i]);
  return OkStatus();
}

Status AddAdvantages(const StepRules& rules, double& beta, std::vector<Sample>& samples,
                     Metrics& metrics) {
  if (rules.reward_kl) NXDKIT_TRY(Penalize(rules, beta, samples, metrics));
  std::vector<AdvantageRow> rows;
  for (Sample& sample : samples) {
    sample.advantages.resize(sample.response_tokens());
    sample.returns.resize(sample.response_tokens());
    rows.push_back({sample.group, sample.rewards, sample.values, sample.baseline, sample.advantages,
                    sample.returns});
  }
  return ComputeAdvantages(rules.advantage, rows);
}

Status WeighByImportance(const StepRules& rules, std::vector<Sample>& samples, Metrics& metrics) {
  if (rules.importance.level == ImportanceLevel::kOff) return OkStatus();
  std::vector<ImportanceRow> rows;
  for (const Sample& sample : samples)
    rows.push_back({sample.old_log_probs, sample.engine_log_probs});
  ImportanceStats stats;
  NXDKIT_ASSIGN(const auto weights, ImportanceWeights(rules.importance, rows, stats));
  for (size_t i = 0; i < samples.size(); ++i)
    for (size_t t = 0; t < weights[i].size(); ++t) samples[i].advantages[t] *= weights[i][t];
  metrics.Set("rollout/is_mean", stats.mean);
  metrics.Set("rollout/is_min", stats.min);
  metrics.Set("rollout/is_max", stats.max);
  metrics.Set("rollout/is_truncated", stats.truncated);
  metrics.Set("rollout/is_effective", stats.effective);
  return OkStatus();
}

void AddSync(const SyncedWeights& synced, const EngineFacts& loaded, Metrics& metrics) {
  for (const auto* parts : {&synced.seconds, &loaded.seconds})
    for (const auto& [part, seconds] : *parts) metrics.Set("timing_s/sync_" + part, seconds);
  metrics.Set("sync/serial", static_cast<double>(synced.version.serial));
  metrics.Set("sync/proved", static_cast<double>(loaded.proved));
  metrics.Set("sync/not_covered", static_cast<double>(loaded.not_covered));
}

void AddSampleLengths(const Config& config, std::span<const Sample> samples,
                      const std::string& prefix, Metrics& metrics) {
  std::vector<int64_t> responses, prompts;
  int64_t cut = 0, full = 0;
  for (const Sample& sample : samples) {
    responses.push_back(std::ssize(sample.row.response));
    prompts.push_back(std::ssize(sample.row.prompt));
    cut += sample.cut;
    full += prompts.back() == config.data.max_prompt_length;
  }
  AddLengths(metrics, prefix + "response_length", responses, cut);
  AddLengths(metrics, prefix + "prompt_length", prompts, full);
}

void AddBatchStats(const Config& config, std::span<const Sample> samples, Metrics& metrics) {
  std::vector<float> scores, rewards, advantages, returns, values;
  for (const Sample& sample : samples) {
    scores.push_back(static_cast<float>(sample.scores.at("overall")));
    float sum = 0;
    for (const float reward : sample.rewards) sum += reward;
    rewards.push_back(sum);
    advantages.insert(advantages.end(), sample.advantages.begin(), sample.advantages.end());
    returns.insert(returns.end(), sample.returns.begin(), sample.returns.end());
    values.insert(values.end(), sample.values.begin(), sample.values.end());
  }
  AddStats(metrics, "critic/score", scores);
  AddStats(metrics, "critic/rewards", rewards);
  AddStats(metrics, "critic/advantages", advantages);
  AddStats(metrics, "critic/returns", returns);
  AddStats(metrics, "critic/values", values);
  if (!values.empty()) metrics.Set("critic/vf_explained_var", ExplainedVariance(returns, values));
  AddSampleLengths(config, samples, "", metrics);
}

void AddStepTimes(const LoopContext& run, const RunModels& models, std::span<const Sample> samples,
                  const PhaseTimes& phases, double seconds, Metrics& metrics) {
  int64_t response_tokens = 0;
  StepPerformance performance;
  std::vector<int64_t> lengths;
  for (const Sample& sample : samples) {
    response_tokens += static_cast<int64_t>(sample.response_tokens());
    lengths.push_back(sample.row.tokens());
    performance.tokens += lengths.back();
  }
  AddTimings(metrics, phases, response_tokens, performance.tokens);
  metrics.Set("timing_s/step", seconds);
  performance.seconds = seconds;
  performance.devices = run.plan.cores;
  performance.training_devices = run.plan.train_cores;
  performance.peak_tflops = run.config.trainer.peak_tflops.value_or(0);
  const auto add = [&](const MeshModel& model, int64_t epochs, std::string_view phase,
                       StepPerformance::Work& work) {
    work.flops = TrainingFlops(CostOf(model), lengths) * static_cast<double>(epochs);
    for (const auto& [name, time] : phases)
      if (name == phase) work.seconds = time;
  };
  const WorkerConfig& worker = run.config.worker;
  add(*models.actor, worker.actor.ppo_epochs, "update_actor", performance.actor);
  if (models.critic)
    add(*models.critic, worker.critic.ppo_epochs, "update_critic", performance.critic);
  AddPerformance(metrics, performance);
}

}  // namespace nxdkit::trainer
