#include "trainer/config/old_names.h"

#include <algorithm>

#include "trainer/base/characters.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kOff = "false|null";
constexpr std::string_view kSystemPrompt =
    "a template around each question is data.format_prompt=FILE; for a system message write it "
    "into a copy of the chat template, data.override_chat_template=FILE";
constexpr std::string_view kNameOfFunction = "set worker.reward.reward_function=FILE:NAME";
constexpr std::string_view kNoRewardModel =
    "there is no reward model here: worker.reward.reward_function scores";
constexpr std::string_view kNoEntropy =
    "set it to 0: there is no entropy in the loss, nor in EasyR1's since March 2025";
// Not read until 3 November 2025: the schedule was constant.
constexpr std::string_view kNoSchedule =
    "it had no effect then; say worker.actor.optim.lr_scheduler_type=cosine if you want it";
constexpr std::string_view kNoScheduleOfCritic =
    "it had no effect then; say worker.critic.optim.lr_scheduler_type=cosine if you want it";
constexpr std::string_view kSamples = "leave it out: training always samples";

// From the history of the dataclasses of hiyouga/EasyR1, February 2025 to July 2026: all keys that
// were once read from a file and no longer are. The KL of the loss and the name of the reward's
// function are in merger.cc, since they involve other keys.
constexpr OldName kOldNames[] = {
    {"data.format_prompt_path", "data.format_prompt"},
    {"data.system_prompt", "", "null|", kSystemPrompt},
    {"data.return_raw_input_ids"},
    {"data.return_raw_prompt"},
    {"trainer.total_episodes", "trainer.total_epochs"},
    {"trainer.test_freq", "trainer.val_freq"},
    {"trainer.val_generations_to_log_to_wandb", "trainer.val_generations_to_log"},
    {"trainer.remove_previous_ckpt", "", kOff, "set trainer.save_limit=1 instead"},
    {"trainer.remove_ckpt_after_load"},
    {"trainer.del_local_ckpt_after_load"},
    {"trainer.report_kl"},
    {"worker.actor.report_kl"},
    {"worker.actor.clip_ratio", "worker.actor.clip_ratio_low|worker.actor.clip_ratio_high"},
    {"worker.actor.entropy_coeff", "", "0|0.0|null", kNoEntropy},
    {"worker.actor.ulysses_sequence_parallel_size", "worker.actor.ulysses_size"},
    {"worker.critic.ulysses_sequence_parallel_size", "worker.critic.ulysses_size"},
    {"worker.ref.ulysses_sequence_parallel_size"},
    {"worker.actor.optim.lr_warmup_steps_ratio", "worker.actor.optim.lr_warmup_ratio"},
    {"worker.critic.optim.lr_warmup_steps_ratio", "worker.critic.optim.lr_warmup_ratio"},
    {"worker.actor.optim.warmup_style", "", "constant|null", kNoSchedule},
    {"worker.critic.optim.warmup_style", "", "constant|null", kNoScheduleOfCritic},
    {"worker.actor.optim.training_steps"},  // from a dump: EasyR1 computed it
    {"worker.critic.optim.training_steps"},
    {"worker.actor.fsdp.param_offload"},
    {"worker.actor.fsdp.optimizer_offload"},
    {"worker.critic.fsdp.param_offload"},
    {"worker.critic.fsdp.optimizer_offload"},
    {"worker.ref.fsdp.param_offload"},
    {"worker.ref.fsdp.optimizer_offload"},
    {"worker.actor.offload.param_offload"},
    {"worker.actor.offload.optimizer_offload"},
    {"worker.critic.offload.param_offload"},
    {"worker.critic.offload.optimizer_offload"},
    {"worker.ref.offload.param_offload"},
    {"worker.ref.offload.optimizer_offload"},
    {"worker.rollout.do_sample", "", "true|null", kSamples},
    {"worker.rollout.free_cache_engine"},
    {"worker.rollout.max_num_seqs"},
    {"worker.reward.compute_score", "worker.reward.reward_function"},
    {"worker.reward.score_function", "worker.reward.reward_function"},
    {"worker.reward.score_function_kwargs", "worker.reward.reward_function_kwargs"},
    {"worker.reward.score_function_name", "", "null", kNameOfFunction},
    {"worker.reward.reward_function_name", "", "null", kNameOfFunction},
    {"worker.reward.reward_type", "", "function|batch|sequential|custom|null", kNoRewardModel},
    // verl's names, which EasyR1's own comments mention.
    {"data.train_batch_size", "", kNoValue, "the key is data.rollout_batch_size"},
    {"data.gen_batch_size", "", kNoValue, "the key is data.mini_rollout_batch_size"},
    {"algorithm.kl_ctrl.kl_coef", "", kNoValue, "the key is algorithm.kl_coef"},
    {"algorithm.kl_ctrl.type", "", kNoValue, "the key is algorithm.kl_type"},
    {"worker.actor.ppo_mini_batch_size", "", kNoValue, "the key is worker.actor.global_batch_size"},
    {"worker.actor.ppo_micro_batch_size_per_gpu", "", kNoValue,
     "the key is worker.actor.micro_batch_size_per_device_for_update"},
    {"worker.actor.grad_clip", "", kNoValue, "the key is worker.actor.max_grad_norm"},
    {"worker.rollout.tensor_model_parallel_size", "", kNoValue,
     "the key is worker.rollout.tensor_parallel_size"},
    {"trainer.default_local_dir", "", kNoValue, "the key is trainer.save_checkpoint_path"},
    {"trainer.resume_from_path", "", kNoValue, "the key is trainer.load_checkpoint_path"},
    {"trainer.total_training_steps", "", kNoValue, "the key is trainer.max_steps"},
};

// The form used in the table: a boolean in any spelling is true or false.
std::string PlainText(const Value& value) {
  switch (value.kind) {
    case ValueKind::kString:
      return value.text;
    case ValueKind::kDouble:
      return NumberText(value.number);
    default:
      return ValueText(value);
  }
}

}  // namespace

std::span<const OldName> OldNames() { return kOldNames; }

const OldName* FindOldName(std::string_view path) {
  const auto* row = std::ranges::find(kOldNames, path, &OldName::path);
  return row == std::end(kOldNames) ? nullptr : row;
}

bool IsOldGroup(std::string_view path) {
  return std::ranges::any_of(kOldNames, [&](const OldName& row) {
    return row.path.size() > path.size() && row.path.starts_with(path) &&
           row.path[path.size()] == '.';
  });
}

bool IsDroppable(const OldName& row, const Value& value) {
  if (row.harmless == kNoValue) return false;
  if (row.harmless.empty()) return true;
  const std::vector<std::string_view> words = Split(row.harmless, '|');
  return std::ranges::find(words, PlainText(value)) != words.end();
}

}  // namespace nxdkit::trainer
