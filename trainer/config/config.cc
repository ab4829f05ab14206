#include "trainer/config/config.h"

namespace nxdkit::trainer {

bool KeepsWeightsInBf16(const OptimConfig& optim) {
  return optim.strategy.starts_with("adamw_bf16");
}

void DeriveConfig(Config& config) {
  ActorConfig& actor = config.worker.actor;
  actor.disable_kl = config.algorithm.disable_kl;
  actor.use_kl_loss = config.algorithm.use_kl_loss;
  actor.kl_penalty = config.algorithm.kl_penalty;
  actor.kl_coef = config.algorithm.kl_coef;

  RefConfig& ref = config.worker.ref;
  ref.micro_batch_size_per_device_for_experience = actor.micro_batch_size_per_device_for_experience;
  ref.padding_free = actor.padding_free;
  ref.dynamic_batching = actor.dynamic_batching;
  ref.ulysses_size = actor.ulysses_size;
  ref.use_torch_compile = actor.use_torch_compile;

  RolloutConfig& rollout = config.worker.rollout;
  rollout.prompt_length = config.data.max_prompt_length;
  rollout.response_length = config.data.max_response_length;
  rollout.trust_remote_code = actor.model.trust_remote_code;

  for (ModelSection* model : {&actor.model, &config.worker.critic.model})
    if (!model->tokenizer_path) model->tokenizer_path = model->model_path;
  if (!actor.compute_dtype) actor.compute_dtype = KeepsWeightsInBf16(actor.optim) ? "bf16" : "f32";
  TrainerConfig& trainer = config.trainer;
  if (!trainer.save_checkpoint_path)
    trainer.save_checkpoint_path =
        "checkpoints/" + trainer.project_name + "/" + trainer.experiment_name;
}

Dtype ComputeDtype(const Config& config) {
  return config.worker.actor.compute_dtype == "bf16" ? Dtype::kBF16 : Dtype::kF32;
}

bool NeedsCritic(const Config& config) { return config.algorithm.adv_estimator == "gae"; }

}  // namespace nxdkit::trainer
