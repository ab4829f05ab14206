#include "trainer/config/other_programs.h"

#include <algorithm>
#include <array>

#include "lib/base/errors.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kOurForm =
    "the form here is EasyR1's: grpo-train --print-config prints all keys; "
    "trainer/config/README.md has ";

struct OtherProgram {
  std::string_view name;
  size_t least;                           // the least number of keys that must match
  std::array<std::string_view, 12> keys;  // top-level names that few or no other programs have
  std::string_view advice;
  bool lists_keys = false;  // whether README.md lists its keys
};

// The first match wins: LLaMA-Factory has TRL's keys too.
constexpr OtherProgram kPrograms[] = {
    {"a configuration of verl",
     1,
     {"actor_rollout_ref", "reward_model", "custom_reward_function"},
     "verl's keys and their counterparts here",
     true},
    {"a configuration of LLaMA-Factory",
     2,
     {"stage", "finetuning_type", "template", "cutoff_len", "dataset_dir", "lora_target",
      "preprocessing_num_workers", "overwrite_cache"},
     "the main keys of other programs and their counterparts here",
     true},
    {"a configuration of axolotl",
     3,
     {"base_model", "datasets", "adapter", "sequence_len", "micro_batch_size", "val_set_size",
      "sample_packing", "lora_r", "flash_attention"},
     "the main keys of other programs and their counterparts here",
     true},
    {"a configuration of OpenRLHF",
     2,
     {"pretrain", "reward_pretrain", "prompt_data", "micro_train_batch_size",
      "micro_rollout_batch_size", "n_samples_per_prompt", "vllm_num_engines",
      "actor_num_gpus_per_node", "remote_rm_url", "init_kl_coef", "advantage_estimator",
      "zero_stage"},
     "the main keys of other programs and their counterparts here",
     true},
    {"a configuration of TRL",
     2,
     {"model_name_or_path", "dataset_name", "num_generations", "max_completion_length",
      "per_device_train_batch_size", "gradient_accumulation_steps", "reward_funcs", "use_vllm",
      "num_train_epochs", "bf16", "max_prompt_length", "output_dir"},
     "the main keys of other programs and their counterparts here",
     true},
    {"a configuration of NxD Training",
     2,
     {"model_source", "exp_manager", "distributed_strategy", "compiler_flags"},
     "it describes the layout of NxD shards: nxd-convert --layout-from FILE reads it"},
    {"a configuration of NeMo-RL",
     2,
     {"policy", "grpo", "cluster", "loss_fn", "checkpointing"},
     "the main keys of other programs and their counterparts here",
     true},
    {"a configuration of DeepSpeed",
     1,
     {"zero_optimization", "train_micro_batch_size_per_gpu"},
     "DeepSpeed is not used here: leave it out"},
    {"a configuration of Accelerate",
     2,
     {"compute_environment", "distributed_type", "num_processes", "machine_rank"},
     "machines are started by mpirun or srun, see trainer/README.md: leave it out"},
    {"the config.json of a model",
     2,
     {"architectures", "model_type", "transformers_version"},
     "name its folder: grpo-train --config FILE worker.actor.model.model_path=FOLDER"},
    {"the neuron_config.json of a bundle",
     2,
     {"neuron_config", "tp_degree", "torch_dtype", "sequence_length", "on_device_sampling"},
     "name its folder: grpo-train --config FILE worker.rollout.model_path=FOLDER"},
};

}  // namespace

Status RefuseOtherPrograms(std::span<const std::string> keys) {
  for (const OtherProgram& program : kPrograms) {
    const auto known = std::ranges::count_if(keys, [&](const std::string& key) {
      return !key.empty() && std::ranges::find(program.keys, key) != program.keys.end();
    });
    if (static_cast<size_t>(known) < program.least) continue;
    // With this key it is EasyR1's form, with words of another program in it.
    if (program.least > 1 && std::ranges::find(keys, "worker") != keys.end()) continue;
    std::string hint(program.lists_keys ? kOurForm : "");
    return Unsupported("this is {}", program.name).hint(hint.append(program.advice));
  }
  return OkStatus();
}

Status RefuseOtherTexts(std::string_view text) {
  if (text.starts_with("#!"))
    return Unsupported("this is a script, not a configuration")
        .hint(
            "pass its KEY=VALUE words to grpo-train, after the file that it names as config=FILE");
  return OkStatus();
}

}  // namespace nxdkit::trainer
