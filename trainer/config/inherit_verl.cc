#include "trainer/config/inherit_verl.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kPythonReward =
    "a function of Python is not run: worker.reward.reward_function names a rule or a command";
constexpr std::string_view kWithoutEntropy = "there is no entropy in the loss";
constexpr std::string_view kMergedLora = "LoRA is not trained here; the adapter is merged";
constexpr std::string_view kOfCheckpoint = "the weights are those of the checkpoint";

// From verl's ppo_trainer.yaml and the files it includes, v0.2 to v0.9. Keys about devices, Ray,
// memory and logging are not in the table: they are counted and left.
constexpr VerlKey kVerlKeys[] = {
    {"data.train_files", "data.train_files"},
    {"data.val_files", "data.val_files"},
    {"data.prompt_key", "data.prompt_key"},
    {"data.max_prompt_length", "data.max_prompt_length"},
    {"data.max_response_length", "data.max_response_length"},
    {"data.train_batch_size", "data.rollout_batch_size"},
    {"data.shuffle", "data.shuffle"},
    {"data.seed", "data.seed"},
    {"data.filter_overlong_prompts", "data.filter_overlong_prompts"},
    {"data.reward_fn_key", "", kPythonReward, "data_source"},
    {"actor_rollout_ref.model.path", "", kOfCheckpoint},
    {"actor_rollout_ref.model.lora_rank", "", kMergedLora, "0"},
    {"actor_rollout_ref.model.enable_gradient_checkpointing",
     "worker.actor.model.enable_gradient_checkpointing"},
    {"actor_rollout_ref.actor.ppo_mini_batch_size", "worker.actor.global_batch_size"},
    {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
     "worker.actor.micro_batch_size_per_device_for_update"},
    {"actor_rollout_ref.actor.use_dynamic_bsz", "worker.actor.dynamic_batching"},
    {"actor_rollout_ref.actor.grad_clip", "worker.actor.max_grad_norm"},
    {"actor_rollout_ref.actor.clip_ratio", "worker.actor.clip_ratio_low"},
    {"actor_rollout_ref.actor.clip_ratio", "worker.actor.clip_ratio_high"},
    {"actor_rollout_ref.actor.clip_ratio_low", "worker.actor.clip_ratio_low"},
    {"actor_rollout_ref.actor.clip_ratio_high", "worker.actor.clip_ratio_high"},
    {"actor_rollout_ref.actor.clip_ratio_c", "worker.actor.clip_ratio_dual"},
    {"actor_rollout_ref.actor.loss_agg_mode", "worker.actor.loss_avg_mode"},
    {"actor_rollout_ref.actor.entropy_coeff", "", kWithoutEntropy, "0"},
    {"actor_rollout_ref.actor.ppo_epochs", "worker.actor.ppo_epochs"},
    {"actor_rollout_ref.actor.optim.lr", "worker.actor.optim.lr"},
    {"actor_rollout_ref.actor.optim.weight_decay", "worker.actor.optim.weight_decay"},
    {"actor_rollout_ref.actor.optim.betas", "worker.actor.optim.betas"},
    {"actor_rollout_ref.actor.optim.lr_warmup_steps", "worker.actor.optim.lr_warmup_steps"},
    {"actor_rollout_ref.actor.optim.lr_warmup_steps_ratio", "worker.actor.optim.lr_warmup_ratio"},
    {"actor_rollout_ref.actor.optim.min_lr_ratio", "worker.actor.optim.min_lr_ratio"},
    {"actor_rollout_ref.actor.optim.lr_scheduler_type", "worker.actor.optim.lr_scheduler_type"},
    {"actor_rollout_ref.actor.optim.warmup_style", "worker.actor.optim.lr_scheduler_type"},
    {"actor_rollout_ref.rollout.n", "worker.rollout.n"},
    {"actor_rollout_ref.rollout.temperature", "worker.rollout.temperature"},
    {"actor_rollout_ref.rollout.top_p", "worker.rollout.top_p"},
    {"actor_rollout_ref.rollout.top_k", "worker.rollout.top_k"},
    {"actor_rollout_ref.rollout.ignore_eos", "worker.rollout.ignore_eos"},
    {"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu",
     "worker.actor.micro_batch_size_per_device_for_experience"},
    {"actor_rollout_ref.rollout.val_kwargs.n", "worker.rollout.val_override_config.n"},
    {"actor_rollout_ref.rollout.val_kwargs.temperature",
     "worker.rollout.val_override_config.temperature"},
    {"actor_rollout_ref.rollout.val_kwargs.top_p", "worker.rollout.val_override_config.top_p"},
    {"actor_rollout_ref.rollout.val_kwargs.top_k", "worker.rollout.val_override_config.top_k"},
    {"critic.model.path", "", kOfCheckpoint},
    {"critic.ppo_mini_batch_size", "worker.critic.global_batch_size"},
    {"critic.ppo_micro_batch_size_per_gpu", "worker.critic.micro_batch_size_per_device_for_update"},
    {"critic.forward_micro_batch_size_per_gpu",
     "worker.critic.micro_batch_size_per_device_for_experience"},
    {"critic.grad_clip", "worker.critic.max_grad_norm"},
    {"critic.cliprange_value", "worker.critic.cliprange_value"},
    {"critic.ppo_epochs", "worker.critic.ppo_epochs"},
    {"critic.optim.lr", "worker.critic.optim.lr"},
    {"critic.optim.weight_decay", "worker.critic.optim.weight_decay"},
    {"critic.optim.betas", "worker.critic.optim.betas"},
    {"critic.optim.lr_warmup_steps", "worker.critic.optim.lr_warmup_steps"},
    {"critic.optim.lr_warmup_steps_ratio", "worker.critic.optim.lr_warmup_ratio"},
    {"reward_model.reward_manager", "", kPythonReward},
    {"custom_reward_function.path", "", kPythonReward},
    {"custom_reward_function.name", "", kPythonReward},
    {"algorithm.adv_estimator", "algorithm.adv_estimator"},
    {"algorithm.gamma", "algorithm.gamma"},
    {"algorithm.lam", "algorithm.lam"},
    {"algorithm.norm_adv_by_std_in_grpo", "",
     "advantages of grpo are divided by their deviation, as EasyR1's are", "true"},
    {"trainer.total_epochs", "trainer.total_epochs"},
    {"trainer.total_training_steps", "trainer.max_steps"},
    {"trainer.project_name", "trainer.project_name"},
    {"trainer.save_freq", "trainer.save_freq"},
    {"trainer.test_freq", "trainer.val_freq"},
    {"trainer.val_before_train", "trainer.val_before_train"},
    {"trainer.critic_warmup", "trainer.critic_warmup"},
    {"trainer.max_actor_ckpt_to_keep", "trainer.save_limit"},
};

// verl may have KL in two places: the one that is on.
constexpr VerlKey kKlOfLoss[] = {
    {"actor_rollout_ref.actor.use_kl_loss", "algorithm.use_kl_loss"},
    {"actor_rollout_ref.actor.kl_loss_coef", "algorithm.kl_coef"},
    {"actor_rollout_ref.actor.kl_loss_type", "algorithm.kl_penalty"},
};
constexpr VerlKey kKlOfReward[] = {
    {"algorithm.kl_penalty", "algorithm.kl_penalty"},
    {"algorithm.kl_ctrl.type", "algorithm.kl_type"},
    {"algorithm.kl_ctrl.kl_coef", "algorithm.kl_coef"},
    {"algorithm.kl_ctrl.horizon", "algorithm.kl_horizon"},
    {"algorithm.kl_ctrl.target_kl", "algorithm.kl_target"},
};

}  // namespace

std::span<const VerlKey> VerlKeys() { return kVerlKeys; }
std::span<const VerlKey> VerlKlKeys(bool of_loss) {
  return of_loss ? std::span<const VerlKey>(kKlOfLoss) : kKlOfReward;
}

}  // namespace nxdkit::trainer
