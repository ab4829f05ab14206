// The configuration of a training run: the schema of EasyR1, the keys of its Trainium port, and a
// few of our own, as plain structs with the default values in place. key_rows.cc and README.md
// describe each key, and list those that are ours and those without effect here. A path through
// these structs is the key's name: config.worker.actor.optim.lr is worker.actor.optim.lr.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/tensor/dtype.h"
#include "lib/yaml/value.h"

namespace nxdkit::trainer {

struct DataConfig {
  std::string train_files;
  std::string val_files;
  std::string prompt_key = "prompt";
  std::string answer_key = "answer";
  std::string image_key = "images";
  std::string video_key = "videos";
  int64_t max_prompt_length = 512;    // P, tokens
  int64_t max_response_length = 512;  // R, tokens
  int64_t rollout_batch_size = 512;   // B, prompts per training step
  std::optional<int64_t> mini_rollout_batch_size;
  std::optional<std::string> format_prompt;
  std::optional<std::string> override_chat_template;
  bool shuffle = true;
  int64_t seed = 1;
  bool filter_overlong_prompts = true;
  std::optional<bool> enable_thinking;       // ours
  std::optional<std::string> template_date;  // ours; YYYY-MM-DD
};

struct AlgorithmConfig {
  double gamma = 1.0;
  double lam = 1.0;
  std::string adv_estimator = "grpo";
  bool disable_kl = false;
  bool use_kl_loss = false;
  std::string kl_penalty = "kl";
  double kl_coef = 1e-3;
  std::string kl_type = "fixed";
  double kl_horizon = 10000;
  double kl_target = 0.1;
  bool online_filtering = false;
  std::string filter_key = "overall";
  double filter_low = 0.01;
  double filter_high = 0.99;
  std::string rollout_is = "off";  // verl's
  double rollout_is_threshold = 2;
};

struct ModelSection {
  std::optional<std::string> model_path;
  std::optional<std::string> tokenizer_path;
  bool enable_gradient_checkpointing = true;
};

struct OptimConfig {
  double lr = 1e-6;
  std::array<double, 2> betas = {0.9, 0.999};
  double weight_decay = 1e-2;
  std::string strategy = "adamw";
  double lr_warmup_ratio = 0;
  std::optional<int64_t> lr_warmup_steps;
  std::optional<double> min_lr_ratio;
  std::string lr_scheduler_type = "constant";
  bool from_model = false;  // starts from the state next to the weights of model_path
};

struct FsdpConfig {
  bool enable_cpu_offload = false;
};

// A model that is updated: the keys that actor and critic share.
struct UpdaterConfig {
  int64_t global_batch_size = 256;  // G, prompts per update
  int64_t micro_batch_size_per_device_for_update = 4;
  int64_t micro_batch_size_per_device_for_experience = 16;
  double max_grad_norm = 1.0;
  std::string loss_avg_mode = "token";
  int64_t ppo_epochs = 1;
  bool dynamic_batching = true;
  ModelSection model;
  OptimConfig optim;
  FsdpConfig fsdp;
};

struct ActorConfig : UpdaterConfig {
  double clip_ratio_low = 0.2;
  double clip_ratio_high = 0.3;
  double clip_ratio_dual = 3.0;
  std::string loss_type = "default";
  bool padding_free = true;  // not read; its default is not the critic's
  double tau_positive = 1.0;
  double tau_negative = 1.05;
  int64_t tensor_parallel_size = 1;          // the port's
  std::optional<std::string> compute_dtype;  // ours; null: what optim.strategy needs
};

struct CriticConfig : UpdaterConfig {
  double cliprange_value = 0.5;
  bool padding_free = false;  // not read
};

// Sampling in validation; unset values are as in training, except n, which is 1.
struct ValOverrideConfig {
  std::optional<int64_t> n;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<int64_t> seed;
  std::optional<bool> ignore_eos;
  std::optional<int64_t> max_tokens;
};

// The parameters that the compiled engine of worker.rollout.model_path was built with.
struct NeuronOverrideConfig {
  std::optional<int64_t> tp_degree;
  std::optional<int64_t> batch_size;
  std::optional<int64_t> seq_len;
  std::optional<bool> on_device_sampling;
  Value others = Value::Map();  // any other key of neuron_config.json
};

struct RolloutConfig {
  int64_t n = 1;
  double temperature = 1.0;
  double top_p = 1.0;
  int64_t top_k = -1;
  int64_t seed = 1;
  std::string dtype = "bf16";
  bool ignore_eos = false;
  int64_t tensor_parallel_size = 2;
  std::optional<int64_t> max_model_len;
  int64_t max_num_batched_tokens = 8192;
  ValOverrideConfig val_override_config;
  std::optional<std::string> model_path;        // the port's
  NeuronOverrideConfig neuron_override_config;  // the port's
  // Ours: the program that is the engine, and its address.
  std::string engine = "cpu";
  std::vector<std::string> url;
  std::optional<std::string> command;
  std::optional<int64_t> servers;
  int64_t max_in_flight = 256;
  double start_timeout_s = 600;
  double answer_timeout_s = 600;
  bool enable_expert_parallel = false;
  std::string engine_layout = "vllm";
  double max_log_prob_gap = 0.5;
};

struct RewardConfig {
  std::optional<std::string> reward_function;
  Value reward_function_kwargs = Value::Map();
  bool skip_special_tokens = true;
};

struct WorkerConfig {
  ActorConfig actor;
  CriticConfig critic;
  RolloutConfig rollout;
  RewardConfig reward;
};

struct TrainerConfig {
  int64_t total_epochs = 15;
  std::optional<int64_t> max_steps;
  std::string project_name = "easy_r1";
  std::string experiment_name = "demo";
  std::vector<std::string> logger = {"console", "file"};  // upstream: console, wandb
  int64_t nnodes = 1;
  int64_t n_gpus_per_node = 8;
  int64_t max_try_make_batch = 20;
  int64_t critic_warmup = 0;
  int64_t val_freq = -1;
  bool val_before_train = true;
  bool val_only = false;
  int64_t val_generations_to_log = 0;
  int64_t save_freq = -1;
  int64_t save_limit = -1;
  bool save_model_only = false;
  std::optional<std::string> save_checkpoint_path;
  std::optional<std::string> load_checkpoint_path;
  bool find_last_checkpoint = true;
  bool separate_rollout_workers = false;       // the port's
  double training_core_ratio = 0.5;            // the port's
  std::optional<int64_t> cores;                // ours
  int64_t max_skipped_steps = 5;               // ours
  std::optional<double> peak_tflops;           // ours
  bool check_memory = true;                    // ours
  int64_t peer_timeout = 60;                   // ours
  bool overlap_gradients = true;               // ours
  std::optional<std::string> tensorboard_dir;  // ours
};

// The value of a key without effect: kept for checks and printing.
using UnreadValue = std::variant<bool, int64_t, double, std::string, std::optional<int64_t>,
                                 std::optional<std::string>, Value>;
// Their defaults, in the order of the table.
std::vector<UnreadValue> UnreadDefaults();

struct Config {
  DataConfig data;
  AlgorithmConfig algorithm;
  WorkerConfig worker;
  TrainerConfig trainer;
  std::vector<UnreadValue> unread = UnreadDefaults();
};

// Fills tokenizer_path from model_path, compute_dtype from the optimizer, and save_checkpoint_path
// from project and experiment, where they are not set. LoadConfig calls it.
void DeriveConfig(Config& config);

// "2026-11-23" as the Unix time of its midnight in UTC; nullopt for anything but a day from 1970
// on.
std::optional<int64_t> MidnightOf(std::string_view date);
// Today's date in local time, as transformers takes it: "2026-11-23".
std::string Today();

// Replaces hub names of models with the folders of its cache (formats/hf/hub_cache.h); for a
// configuration that CheckConfig accepted.
void UseHubCache(Config& config);

// Whether this optimizer keeps weights in bf16: adamw_bf16 and adamw_bf16_fixed.
bool KeepsWeightsInBf16(const OptimConfig& optim);

// The dtype of the weights and operands of actor, critic and reference, after DeriveConfig.
Dtype ComputeDtype(const Config& config);

// Whether the advantages need the values of a critic: adv_estimator gae.
bool NeedsCritic(const Config& config);

}  // namespace nxdkit::trainer
