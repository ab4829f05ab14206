#include "trainer/config/key_rows.h"

namespace nxdkit::trainer {
namespace {

using enum KeyOwner;
using enum KeyLimit;
using enum KeyUse;
using std::string_literals::operator""s;

#define MEMBER(type, name, path) name, [](type& c) -> ConfigSlot { return &c.path; }
#define DATA(path) MEMBER(Config, #path, data.path)
#define ALGORITHM(path) MEMBER(Config, #path, algorithm.path)
#define ROLLOUT(path) MEMBER(Config, #path, worker.rollout.path)
#define REWARD(path) MEMBER(Config, #path, worker.reward.path)
#define TRAINER(path) MEMBER(Config, #path, trainer.path)
// Members of actor and critic both, and of one of them.
#define UPDATER(path) MEMBER(UpdaterConfig, #path, path)
#define ACTOR(path) MEMBER(ActorConfig, #path, path)
#define CRITIC(path) MEMBER(CriticConfig, #path, path)

template <typename Section>
using SlotOf = ConfigSlot (*)(Section& section);

// A key as written below, with its path after the section. Its value is a member of the section, or
// an unread one with this default.
struct Row {
  std::string_view path;
  std::variant<SlotOf<Config>, SlotOf<UpdaterConfig>, SlotOf<ActorConfig>, SlotOf<CriticConfig>,
               UnreadValue>
      slot;
  std::string_view text;
  KeyLimit limit = kNone;
  std::string_view words = "";
  KeyOwner owner = kEasyR1;
  KeyUse use = kUsed;
};

// A key that is accepted and does nothing, for the reason `why`.
Row NoEffect(std::string_view path, UnreadValue standard, std::string_view why,
             KeyLimit limit = kNone) {
  const std::string_view words = limit == kDtype ? "bf16|fp16|fp32" : "";
  return {path, std::move(standard), why, limit, words, kEasyR1, kNoEffect};
}

// A key that may only have the value `word`.
Row Only(std::string_view path, UnreadValue standard, std::string_view word, std::string_view why,
         KeyLimit limit = kNone) {
  return {path, std::move(standard), why, limit, word, kEasyR1, kOnly};
}

const std::optional<std::string> kNull;
constexpr std::string_view kNoFsdp = "there is no FSDP here";
constexpr std::string_view kNoLora = "LoRA is not trained here";
constexpr std::string_view kPacked = "rows are always packed without padding";

class Table {
 public:
  template <typename Section = Config>
  void Add(
      std::string_view prefix, std::span<const Row> rows,
      Section& (*of)(Config&) = [](Config& c) -> Config& { return c; }) {
    for (const Row& row : rows) AddRow(prefix, row, of);
  }
  std::vector<ConfigKey> Take() { return std::move(keys_); }

 private:
  // Skips the rows of another section.
  template <typename Section>
  void AddRow(std::string_view prefix, const Row& row, Section& (*of)(Config&)) {
    ConfigKey key = {
        std::string(prefix).append(row.path), row.use, row.limit, row.words, row.text, row.owner};
    if (const auto* member = std::get_if<SlotOf<Section>>(&row.slot))
      key.slot = [member = *member, of](Config& c) { return member(of(c)); };
    if constexpr (std::is_base_of_v<UpdaterConfig, Section>)
      if (const auto* member = std::get_if<SlotOf<UpdaterConfig>>(&row.slot))
        key.slot = [member = *member, of](Config& c) { return member(of(c)); };
    if (const auto* value = std::get_if<UnreadValue>(&row.slot)) {
      key.unread = *value;
      key.slot = [i = unread_++](Config& c) {
        return std::visit([](auto& held) -> ConfigSlot { return &held; }, c.unread[i]);
      };
    }
    if (key.slot) keys_.push_back(std::move(key));
  }

  std::vector<ConfigKey> keys_;
  size_t unread_ = 0;
};

void AddData(Table& table) {
  const Row rows[] = {
      {DATA(train_files), "training rows: file, folder, hub name, each @split; exec:COMMAND",
       kData},
      {DATA(val_files), "validation rows, as train_files", kData},
      {DATA(prompt_key), "column of the question"},
      {DATA(answer_key), "column of the answer"},
      {DATA(image_key), "a row with something in this column is refused: images are not read"},
      {DATA(video_key), "a row with something in this column is refused: videos are not read"},
      Only("image_dir", kNull, "null", "images are not read"),
      NoEffect("video_fps", 2.0, "videos are not read"),
      {DATA(max_prompt_length), "P: tokens of a prompt, chat template included", kPositive},
      {DATA(max_response_length), "R: tokens of a response", kPositive},
      {DATA(rollout_batch_size), "B: prompts per training step", kPositive},
      {DATA(mini_rollout_batch_size), "prompts per call of the engine; null: B", kPositive},
      NoEffect("val_batch_size", -1, "the validation rows are one batch", kUnlimited),
      {DATA(format_prompt), "template around each question", kFile},
      {DATA(override_chat_template), "template used in place of the tokenizer's", kFile},
      {DATA(shuffle), "a new order each epoch"},
      {DATA(seed), "seed of that order"},
      NoEffect("min_pixels", std::optional<int64_t>(262144), "images are not read"),
      NoEffect("max_pixels", std::optional<int64_t>(4194304), "images are not read"),
      {DATA(filter_overlong_prompts), "drop rows longer than P"},
      NoEffect("filter_overlong_prompts_workers", 16, "prompts are tokenized by one thread"),
      {DATA(template_date),
       "day that templates print with strftime_now, YYYY-MM-DD; else the day the run began", kNone,
       "", kOurs},
      {DATA(enable_thinking),
       "passed to the chat template; null: not passed, the template's default", kNone, "", kOurs},
  };
  table.Add("data.", rows);
}

void AddAlgorithm(Table& table) {
  const Row rows[] = {
      {ALGORITHM(gamma), "discount", kFraction},
      {ALGORITHM(lam), "lambda of generalized advantage estimation", kFraction},
      {ALGORITHM(adv_estimator), "the advantage estimator", kNone,
       "grpo|grpo_passk|rloo|reinforce_plus_plus|remax|gae"},
      {ALGORITHM(disable_kl), "no reference model, no KL"},
      {ALGORITHM(use_kl_loss), "KL in the loss; else it is subtracted from the reward"},
      {ALGORITHM(kl_penalty), "the KL estimator", kNone, "kl|abs|mse|low_var_kl"},
      {ALGORITHM(kl_coef), "weight of KL", kNotNegative},
      {ALGORITHM(kl_type), "type of the weight in the reward", kNone, "fixed|adaptive"},
      {ALGORITHM(kl_horizon), "horizon of the adaptive weight, in sequences"},
      {ALGORITHM(kl_target), "target of the adaptive weight"},
      {ALGORITHM(online_filtering),
       "drop prompts whose mean score is outside filter_low..filter_high"},
      {ALGORITHM(filter_key), "the score that the filter uses"},
      {ALGORITHM(filter_low), "exclusive"},
      {ALGORITHM(filter_high), "exclusive"},
      {ALGORITHM(rollout_is),
       "truncated importance weights between the engine's policy and the trainer's", kNone,
       "off|token|sequence", kOurs},
      {ALGORITHM(rollout_is_threshold), "the largest such weight", kPositive, "", kOurs},
  };
  table.Add("algorithm.", rows);
}

// Keys of actor, critic and ref: only enable_cpu_offload, which is `cpu_offload`, has an effect.
std::vector<Row> Sharding(const Row& cpu_offload) {
  return {
      NoEffect("fsdp.enable_full_shard", true, kNoFsdp),
      cpu_offload,
      NoEffect("fsdp.enable_rank0_init", true, kNoFsdp),
      NoEffect("fsdp.use_orig_params", false, kNoFsdp),
      NoEffect("fsdp.torch_dtype", kNull, "see worker.actor.compute_dtype", kDtype),
      NoEffect("fsdp.fsdp_size", -1, kNoFsdp),
      NoEffect("fsdp.mp_param_dtype", "bf16"s, "see worker.actor.compute_dtype", kDtype),
      NoEffect("fsdp.mp_reduce_dtype", "fp32"s, "sums are f32", kDtype),
      NoEffect("fsdp.mp_buffer_dtype", "fp32"s, "buffers are f32", kDtype),
      NoEffect("offload.offload_params", false, "everything is in host memory"),
      NoEffect("offload.offload_optimizer", false, "everything is in host memory"),
  };
}

Row Strategy() {
  return NoEffect("strategy", "fsdp"s,
                  "there is one way of sharding: tensor parallel times data parallel");
}

// worker.actor and worker.critic.
void AddUpdaters(Table& table) {
  std::vector<Row> rows = {
      Strategy(),
      {UPDATER(global_batch_size), "G: prompts per update", kPositive},
      {UPDATER(micro_batch_size_per_device_for_update), "sequences per forward and backward pass",
       kPositive},
      {UPDATER(micro_batch_size_per_device_for_experience),
       "sequences per pass for log-probs or values", kPositive},
      {UPDATER(max_grad_norm), "gradients are scaled down to this norm", kPositive},
      {ACTOR(clip_ratio_low), "lower clip: 1 - this", kFraction},
      {ACTOR(clip_ratio_high), "upper clip: 1 + this", kNotNegative},
      {ACTOR(clip_ratio_dual), "dual clip of negative advantages", kAboveOne},
      {CRITIC(cliprange_value), "clip of the value update", kPositive},
      {UPDATER(loss_avg_mode),
       "mean over tokens, or over the sequences of a micro-batch, or (seq_mean, ours) of the "
       "update",
       kNone, "token|seq|seq_mean"},
      {ACTOR(loss_type), "the policy loss", kNone, "default|gspo|gspo_token|cispo|sapo"},
      {UPDATER(ppo_epochs), "passes over each batch", kPositive},
      {ACTOR(padding_free), kPacked, kNone, "", kEasyR1, kNoEffect},
      {CRITIC(padding_free), kPacked, kNone, "", kEasyR1, kNoEffect},
      {UPDATER(dynamic_batching),
       "micro-batches of nearly equal token counts, at most micro_batch_size * (P + R)"},
      Only("ulysses_size", 1, "1",
           "sequence parallelism is not supported; use worker.actor.tensor_parallel_size"),
      NoEffect("use_torch_compile", true, "there is nothing to compile"),
      {ACTOR(tau_positive), "of sapo", kPositive},
      {ACTOR(tau_negative), "of sapo", kPositive},
      {ACTOR(tensor_parallel_size), "ranks that share one model in training", kPositive, "", kPort},
      {ACTOR(compute_dtype),
       "dtype of weights and operands in forward and backward, sums are f32; null: bf16 with an "
       "adamw_bf16 optimizer, otherwise f32",
       kDtype, "f32|bf16", kOurs},
      {UPDATER(model.model_path),
       "Hugging Face folder of the weights; the critic's may already have a head with one score",
       kPath},
      {UPDATER(model.tokenizer_path),
       "folder of the tokenizer, which is the same for both; null: model_path", kPath},
      Only("model.override_config", Value::Map(), "{}",
           "the model is what its config.json says; edit that"),
      {UPDATER(model.enable_gradient_checkpointing),
       "keep only each layer's input, and run the layer again in the backward pass"},
      NoEffect("model.trust_remote_code", true, "code in a model folder is never run"),
      NoEffect("model.freeze_vision_tower", false, "there is no vision tower"),
      Only("model.lora.rank", 0, "0", kNoLora),
      NoEffect("model.lora.alpha", 64, kNoLora),
      NoEffect("model.lora.target_modules", "all-linear"s, kNoLora),
      NoEffect("model.lora.exclude_modules", kNull, kNoLora),
      {UPDATER(optim.lr), "learning rate", kNotNegative},
      {UPDATER(optim.betas), "of AdamW", kBeta},
      {UPDATER(optim.weight_decay), "weight decay of every parameter", kNotNegative},
      {UPDATER(optim.strategy),
       "adamw: f32 state; adamw_bf16: bf16 state with Kahan sums, rounded as the original does; "
       "adamw_bf16_fixed (ours): v and weight decay also work",
       kNone, "adamw|adamw_bf16|adamw_bf16_fixed"},
      {UPDATER(optim.lr_warmup_ratio), "warm-up as a share of all steps", kFraction},
      {UPDATER(optim.lr_warmup_steps), "warm-up steps; wins over the ratio", kNotNegative},
      {UPDATER(optim.min_lr_ratio), "floor of the cosine; null: 0", kFraction},
      {UPDATER(optim.lr_scheduler_type), "after the warm-up", kNone, "constant|cosine"},
      {UPDATER(optim.from_model),
       "start with the optimizer's state next to the weights of model_path: an FSDP run, a "
       "distributed checkpoint, an NxD tag",
       kNone, "", kOurs},
  };
  const Row offload = {UPDATER(fsdp.enable_cpu_offload),
                       "only its rule applies: no gradient accumulation with it"};
  for (Row& row : Sharding(offload)) rows.push_back(std::move(row));
  table.Add<ActorConfig>("worker.actor.", rows,
                         [](Config& c) -> ActorConfig& { return c.worker.actor; });
  table.Add<CriticConfig>("worker.critic.", rows,
                          [](Config& c) -> CriticConfig& { return c.worker.critic; });
}

void AddRef(Table& table) {
  const Row strategy[] = {Strategy()};
  table.Add("worker.ref.", strategy);
  table.Add("worker.ref.", Sharding(NoEffect("fsdp.enable_cpu_offload", false, kNoFsdp)));
}

void AddRollout(Table& table) {
  const Row rows[] = {
      NoEffect("name", "vllm"s, "see worker.rollout.engine"),
      {ROLLOUT(n), "responses per prompt", kPositive},
      {ROLLOUT(temperature), "sampling temperature; log-probs are divided by it too", kTemperature},
      {ROLLOUT(top_p), "sample from the most likely tokens of this mass", kMass},
      {ROLLOUT(top_k), "sample from this many most likely tokens; -1: all", kUnlimited},
      {ROLLOUT(seed), "sampling seed; each prompt, sample and token draws its own number from it"},
      NoEffect("limit_images", 0, "images are not read, and a row with some is refused"),
      {ROLLOUT(dtype), "dtype of the engine's weights", kDtype, "bf16|fp32"},
      NoEffect("gpu_memory_utilization", 0.6, "the engine takes the memory that its batch needs",
               kFraction),
      {ROLLOUT(ignore_eos), "do not stop at an end token"},
      NoEffect("enforce_eager", false, "there are no graphs to capture"),
      NoEffect("enable_chunked_prefill", false, "long prompts are always processed in pieces"),
      {ROLLOUT(tensor_parallel_size), "ranks that share one model in an engine", kPositive},
      {ROLLOUT(max_model_len), "context of the engine; null: P + R", kPositive},
      {ROLLOUT(max_num_batched_tokens), "only its rule applies: at least P + R", kPositive},
      NoEffect("disable_log_stats", true, "the engine prints nothing"),
      NoEffect("disable_tqdm", false, "progress is the command's -q"),
      {ROLLOUT(val_override_config.n), "responses per validation prompt; null: 1", kPositive},
      {ROLLOUT(val_override_config.temperature), "in validation; 0: the most likely token",
       kTemperatureOrZero},
      {ROLLOUT(val_override_config.top_p), "in validation", kMass},
      {ROLLOUT(val_override_config.top_k), "in validation", kUnlimited},
      {ROLLOUT(val_override_config.seed), "in validation"},
      {ROLLOUT(val_override_config.ignore_eos), "in validation"},
      {ROLLOUT(val_override_config.max_tokens), "tokens of a validation response; null: R",
       kPositive},
      {ROLLOUT(model_path), "compiled rollout bundle; null: the actor's weights", kPath, "", kPort},
      {ROLLOUT(neuron_override_config.tp_degree), "that the bundle was compiled for", kPositive, "",
       kPort},
      {ROLLOUT(neuron_override_config.batch_size),
       "slots of an engine that the bundle was compiled for", kPositive, "", kPort},
      {ROLLOUT(neuron_override_config.seq_len),
       "prompt and response that the bundle was compiled for", kPositive, "", kPort},
      {ROLLOUT(neuron_override_config.on_device_sampling), "that the bundle was compiled for",
       kNone, "", kPort},
      {MEMBER(Config, "neuron_override_config", worker.rollout.neuron_override_config.others),
       "other keys of the bundle's neuron_config.json, which must have these values", kNone, "",
       kPort},
      {ROLLOUT(engine), "the engine that generates: this program's, a vLLM server, any program",
       kNone, "cpu|vllm|exec", kOurs},
      {ROLLOUT(url), "running vLLM servers, http://HOST:PORT each", kNone, "", kOurs},
      {ROLLOUT(command),
       "vllm: the command that starts a server, with {model} and {port}, null: vllm serve; exec: "
       "the program",
       kNone, "", kOurs},
      {ROLLOUT(servers),
       "number of servers to start; null: one, or one for each rollout worker's cores", kPositive,
       "", kOurs},
      {ROLLOUT(max_in_flight), "sequences that a server or program generates at a time", kPositive,
       "", kOurs},
      {ROLLOUT(start_timeout_s), "seconds until a server or program answers", kPositive, "", kOurs},
      {ROLLOUT(answer_timeout_s), "seconds until one request is answered", kPositive, "", kOurs},
      {ROLLOUT(enable_expert_parallel), "the vLLM server keeps whole experts", kNone, "", kOurs},
      {ROLLOUT(engine_layout),
       "layout of the weights in a server or program, for predicting digests; vllm-neuron: "
       "derived from its sources, and restarted for new weights",
       kNone, "vllm|vllm-neuron", kOurs},
      {ROLLOUT(max_log_prob_gap),
       "a step with a larger mean distance of engine and trainer stops the run", kPositive, "",
       kOurs},
  };
  table.Add("worker.rollout.", rows);
}

void AddReward(Table& table) {
  const Row rows[] = {
      {REWARD(reward_function), "math, r1v, dapo, exact, or exec:COMMAND"},
      {REWARD(reward_function_kwargs), "numbers, passed to each call"},
      {REWARD(skip_special_tokens), "when responses are turned into text"},
      NoEffect("num_cpus", 1, "built-in rules need no more; a command brings its own processes",
               kPositive),
  };
  table.Add("worker.reward.", rows);
}

void AddTrainer(Table& table) {
  const Row rows[] = {
      {TRAINER(total_epochs), "passes over the training rows", kPositive},
      {TRAINER(max_steps), "training steps; wins over total_epochs", kPositive},
      {TRAINER(project_name), "of the run"},
      {TRAINER(experiment_name), "of the run"},
      {TRAINER(logger),
       "outputs: `console` prints steps and phases, `tensorboard` writes event files; "
       "experiment_log.jsonl (`file`) is always written, a resumed run needs it; wandb: `python -m "
       "nxdkit.wandb RUN` imports it",
       kNone, "console|file|tensorboard|wandb|mlflow|swanlab"},
      {TRAINER(nnodes), "machines, each with a process that mpirun or srun has started", kPositive},
      {TRAINER(n_gpus_per_node), "cores (ranks) of a machine, if trainer.cores is not set",
       kPositive},
      {TRAINER(max_try_make_batch),
       "generations until a filtered batch is full; 0 or less: no limit"},
      {TRAINER(critic_warmup), "steps before the actor is updated", kNotNegative},
      {TRAINER(val_freq), "steps between validations; -1: none", kUnlimited},
      {TRAINER(val_before_train), "validate first"},
      {TRAINER(val_only), "validate and stop"},
      {TRAINER(val_generations_to_log), "samples per validation in the logs", kNotNegative},
      {TRAINER(save_freq), "steps between checkpoints; -1: at the end only", kUnlimited},
      {TRAINER(save_limit), "checkpoints to keep; -1: all", kUnlimited},
      {TRAINER(save_model_only), "checkpoints without optimizer: they cannot be resumed"},
      {TRAINER(save_checkpoint_path), "folder of the run; null: checkpoints/<project>/<experiment>",
       kPath},
      {TRAINER(load_checkpoint_path), "checkpoint to resume from", kFolder},
      Only("ray_timeline", kNull, "null",
           "there is no Ray here; timing_s/* and the report show the phases"),
      {TRAINER(find_last_checkpoint), "resume from the run's last checkpoint"},
      {TRAINER(separate_rollout_workers), "cores are either for training or for rollout", kNone, "",
       kPort},
      {TRAINER(training_core_ratio), "share of the cores for training, when separate", kInside, "",
       kPort},
      {TRAINER(cores), "cores (ranks) of a machine; null: n_gpus_per_node", kPositive, "", kOurs},
      {TRAINER(max_skipped_steps),
       "stop after this many steps in a row with gradients that are not finite", kPositive, "",
       kOurs},
      {TRAINER(peak_tflops), "peak TFLOP/s of one core, for perf/mfu_*; null: not reported",
       kPositive, "", kOurs},
      {TRAINER(check_memory), "refuse to start if the run may take more memory than is available",
       kNone, "", kOurs},
      {TRAINER(peer_timeout),
       "seconds of silence after which one of several processes is lost, and the run ends with "
       "exit code 75",
       kSeconds, "", kOurs},
      {TRAINER(overlap_gradients),
       "over several processes: gradients are summed while the backward pass runs", kNone, "",
       kOurs},
      {TRAINER(tensorboard_dir),
       "folder of the event files; null: $TENSORBOARD_DIR or tensorboard_log, then project and "
       "experiment",
       kPath, "", kOurs},
  };
  table.Add("trainer.", rows);
}
#undef CRITIC
#undef ACTOR
#undef UPDATER
#undef TRAINER
#undef REWARD
#undef ROLLOUT
#undef ALGORITHM
#undef DATA
#undef MEMBER

}  // namespace

std::vector<ConfigKey> MakeConfigKeys() {
  Table table;
  AddData(table);
  AddAlgorithm(table);
  const Row engine[] = {Only("hybrid_engine", true, "true", "there is no other engine")};
  table.Add("worker.", engine);
  AddUpdaters(table);
  AddRef(table);
  AddRollout(table);
  AddReward(table);
  AddTrainer(table);
  return table.Take();
}

}  // namespace nxdkit::trainer
