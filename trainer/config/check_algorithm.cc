#include "trainer/config/check_algorithm.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/text.h"
#include "trainer/config/key_table.h"

namespace nxdkit::trainer {
namespace {

void CheckEstimator(Checker& check) {
  const std::string& estimator = check.config().algorithm.adv_estimator;
  const int64_t samples = check.config().worker.rollout.n;
  const bool grouped = estimator == "grpo" || estimator == "grpo_passk" || estimator == "rloo";
  if (grouped && samples < 2)
    check.Problem(
        "worker.rollout.n",
        fmt::format("{} compares the responses to one prompt, and there is {}", estimator, samples),
        "set it to 2 or more");
}

void CheckCritic(Checker& check) {
  const Config& config = check.config();
  if (NeedsCritic(config)) return;
  const std::string& estimator = config.algorithm.adv_estimator;
  const bool set = std::ranges::any_of(ConfigKeys(), [&](const ConfigKey& key) {
    return key.path.starts_with("worker.critic.") && check.IsSet(key.path);
  });
  if (set)
    check.Note(
        fmt::format("worker.critic has no effect: only gae needs a critic, and "
                    "algorithm.adv_estimator is {}",
                    EscapeControl(estimator)));
  if (config.trainer.critic_warmup > 1)
    check.Note(
        fmt::format("trainer.critic_warmup = {}: there is no critic, and the actor is not "
                    "updated before step {}",
                    config.trainer.critic_warmup, config.trainer.critic_warmup));
}

void CheckKl(Checker& check) {
  const AlgorithmConfig& algorithm = check.config().algorithm;
  if (algorithm.disable_kl) return;
  const bool adaptive = algorithm.kl_type == "adaptive";
  if (adaptive && algorithm.use_kl_loss)
    check.Problem("algorithm.kl_type",
                  "the adaptive weight acts on KL in the reward only, and algorithm.use_kl_loss "
                  "is true",
                  "set it to fixed, or algorithm.use_kl_loss to false");
  for (const auto& [key, value] : {std::pair("algorithm.kl_horizon", algorithm.kl_horizon),
                                   {"algorithm.kl_target", algorithm.kl_target}})
    if (adaptive && !(value > 0))
      check.Problem(key, fmt::format("{} must be more than 0 with kl_type adaptive", value));
  if (algorithm.use_kl_loss && algorithm.kl_penalty == "kl")
    check.Note(
        "algorithm.kl_penalty = kl as a loss has no gradient in expectation; low_var_kl "
        "and mse have");
}

void CheckFilter(Checker& check) {
  const AlgorithmConfig& algorithm = check.config().algorithm;
  if (algorithm.online_filtering && !(algorithm.filter_low < algorithm.filter_high))
    check.Problem("algorithm.filter_low",
                  fmt::format("{} must be less than algorithm.filter_high {}", algorithm.filter_low,
                              algorithm.filter_high));
}

// `of`: the section, "worker.actor".
void CheckOptimizer(Checker& check, std::string_view of, const OptimConfig& optim) {
  if (KeepsWeightsInBf16(optim) && ComputeDtype(check.config()) != Dtype::kBF16)
    check.Problem(
        fmt::format("{}.optim.strategy", of),
        fmt::format("{} is for bf16 weights, and worker.actor.compute_dtype is {}",
                    EscapeControl(optim.strategy),
                    EscapeControl(check.config().worker.actor.compute_dtype.value_or("null"))),
        "set worker.actor.compute_dtype=bf16, or this to adamw");
  const bool bf16 = optim.strategy == "adamw_bf16";
  if (bf16 && optim.betas[1] > 0.996)
    check.Note(
        fmt::format("{}: adamw_bf16 with betas[1] {} never lets v decay (rounding to bf16 "
                    "undoes it); adamw_bf16_fixed does",
                    of, optim.betas[1]));
  if (bf16 && optim.weight_decay > 0 && optim.lr * optim.weight_decay < 1.9e-3)
    check.Note(
        fmt::format("{}: adamw_bf16 with lr {} and weight_decay {} decays no weight (rounding "
                    "to bf16 undoes it); adamw_bf16_fixed does",
                    of, optim.lr, optim.weight_decay));
  const bool warms_up = optim.lr_warmup_steps.value_or(0) > 0 ||
                        (!optim.lr_warmup_steps && optim.lr_warmup_ratio > 0);
  if (warms_up)
    check.Note(fmt::format("{}: the first step of the warm-up runs at learning rate 0", of));
}

void CheckLogs(Checker& check) {
  for (const std::string& logger : check.config().trainer.logger)
    if (logger == "wandb")
      check.Note(
          "trainer.logger wandb is not built in; python -m nxdkit.wandb RUN imports the files of a "
          "run, also while it runs");
    else if (logger == "mlflow" || logger == "swanlab")
      check.Note(
          fmt::format("trainer.logger {} is not built in; log to file and tensorboard, and "
                      "import those files",
                      logger));
  if (check.config().trainer.save_model_only)
    check.Note(
        "trainer.save_model_only: these checkpoints cannot be resumed; only what an interrupted "
        "run saves can");
}

void CheckLoss(Checker& check) {
  const ActorConfig& actor = check.config().worker.actor;
  if (actor.loss_type == "cispo" && actor.clip_ratio_low == 0)
    check.Note(
        "cispo with clip_ratio_low 0 never weighs a token less than 1; 1 means no lower "
        "bound");
}

}  // namespace

void CheckAlgorithm(Checker& check) {
  CheckEstimator(check);
  CheckCritic(check);
  CheckKl(check);
  CheckFilter(check);
  CheckLoss(check);
  const WorkerConfig& worker = check.config().worker;
  CheckOptimizer(check, "worker.actor", worker.actor.optim);
  if (NeedsCritic(check.config())) CheckOptimizer(check, "worker.critic", worker.critic.optim);
  CheckLogs(check);
}

}  // namespace nxdkit::trainer
