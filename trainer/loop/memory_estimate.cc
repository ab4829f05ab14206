#include "trainer/loop/memory_estimate.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/errors.h"
#include "trainer/algo/optimizer.h"
#include "trainer/model/decoder.h"
#include "trainer/model/param_table.h"

namespace nxdkit::trainer {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
// A process before it holds a model: code, libraries, stacks.
constexpr double kProcess = 48.0 * (1 << 20);
// A rank of the mesh, apart from its computation: block buffers of sums, and memory that the
// allocator keeps for its thread (from the measured peaks of 1, 2 and 4 ranks).
constexpr double kRank = 8.0 * (1 << 20);
// A rank in a mesh over processes: trainer/comm/reduce.cc.
constexpr double kRemoteBlock = 16.0 * (1 << 20);
// Open MPI in a process (12 MiB measured), and its messages.
constexpr double kMpi = 16.0 * (1 << 20);
// A converting thread: two buffers of the executor.
constexpr double kFileBuffers = 32.0 * (1 << 20);
// One pass of an engine, as in EngineOptions.
constexpr int64_t kPassTokens = 256;

// Doubles: exact up to 8 PiB, and sizes from a configuration cannot wrap.
double D(int64_t value) { return static_cast<double>(value); }
int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// The keys that lower a part, except those already set that way.
std::string Keys(std::initializer_list<std::pair<bool, std::string>> rows) {
  std::string text;
  for (const auto& [helps, key] : rows)
    if (helps) text += fmt::format("{}{}", text.empty() ? "" : ", ", key);
  return text;
}

// The memory that one rank's passes over a micro-batch use (model/decoder.cc, model/layer.cc).
class Activations {
 public:
  Activations(const DecoderConfig& model, const ParamTable& table, Dtype compute)
      : hidden_(D(model.model.config.hidden)),
        query_(D(table.heads * model.model.config.head_dim)),
        wide_(query_ + 2 * D(table.kv_heads * model.model.config.head_dim)),
        inner_(D(table.intermediate)),
        vocab_(D(table.score < 0 ? table.vocab : 0)),  // a score is one number
        layers_(D(std::ssize(table.layers))),
        narrow_(compute == Dtype::kBF16) {}

  // A pass for log-probabilities alone.
  double Forward(double tokens, double targets) const {
    return 4 * tokens * 3 * hidden_ + Layer(tokens) + Head(targets);
  }
  double Backward(double tokens, double targets, bool recompute) const {
    const double kept = 4 * tokens * (layers_ + 1 + 3) * hidden_;
    const double gradients =
        4 * tokens * (hidden_ + query_ + wide_ + 3 * inner_) + Narrow(tokens, 2 * inner_);
    return kept + (recompute ? 1 : layers_) * Layer(tokens) + gradients + Head(targets) +
           4 * targets * hidden_ + Narrow(1024, vocab_) + KeptLogitGradients(targets);
  }

 private:
  double Narrow(double rows, double columns) const { return narrow_ ? 2 * rows * columns : 0; }
  double Layer(double tokens) const {
    return 4 * tokens * (3 * hidden_ + 2 * wide_ + query_ + 3 * inner_) +
           Narrow(tokens, 2 * hidden_ + query_ + inner_);
  }
  double KeptLogitGradients(double targets) const {
    return std::min(D(DecoderOptions().kept_bytes), targets * vocab_ * (narrow_ ? 2 : 4));
  }
  // Rows whose distribution is needed, and logits of as many as the decoder holds at once.
  double Head(double targets) const {
    const double chunk = std::clamp(8.0 * (1 << 20) / vocab_, 16.0, 1024.0);
    return 4 * targets * hidden_ + Narrow(targets, hidden_) +
           4 * std::min(chunk, targets) * vocab_ + 48 * targets;
  }

  const double hidden_, query_, wide_, inner_, vocab_, layers_;
  const bool narrow_;
};

class Estimator {
 public:
  Estimator(const Config& config, const RunPlan& plan, const DecoderConfig& model, int64_t machine)
      : config_(config), plan_(plan), model_(model), machine_(machine) {}

  Status Train() {
    const ActorConfig& actor = config_.worker.actor;
    NXDKIT_ASSIGN(const ParamTable table, TableOf(model_));
    NXDKIT_ASSIGN(const Sizes sizes, SizesOf(table, actor.optim));
    Add("weights", sizes.weights,
        Keys({{wide(), "worker.actor.compute_dtype=bf16"}, {true, "trainer.cores"}}));
    Add("gradients", sizes.gradients, "trainer.cores (each data-parallel rank holds all of them)");
    Add("optimizer", sizes.optimizer, OptimizerKeys("worker.actor", actor));
    stored_ = sizes.weights + sizes.optimizer;
    const bool reference = !config_.algorithm.disable_kl;
    if (reference) Add("reference", sizes.weights, "algorithm.disable_kl=true");
    const Passes passes =
        PassesOf(Activations(model_, table, compute()), actor, plan_.rows_per_update);
    Add("activations",
        ranks() * (std::max(passes.forward, passes.backward) + (reference ? passes.forward : 0)),
        PassKeys("worker.actor", actor));
    return OkStatus();
  }

  Status TrainCritic(const DecoderConfig& model) {
    const CriticConfig& critic = config_.worker.critic;
    NXDKIT_ASSIGN(const ParamTable table, TableOf(model));
    NXDKIT_ASSIGN(const Sizes sizes, SizesOf(table, critic.optim));
    Add("critic", sizes.weights + sizes.gradients + sizes.optimizer,
        Keys({{true, "a smaller worker.critic.model.model_path"},
              {!KeepsWeightsInBf16(critic.optim), OptimizerKeys("worker.critic", critic)}}));
    stored_ = std::max(stored_, sizes.weights + sizes.optimizer);
    const Passes passes =
        PassesOf(Activations(model, table, compute()), critic, plan_.critic_rows_per_update);
    Add("critic's activations", ranks() * std::max(passes.forward, passes.backward),
        PassKeys("worker.critic", critic));
    return OkStatus();
  }

  Status Rollout(const EngineShape& engine) {
    const double engines =
        plan_.worker_processes() ? D(std::ranges::count(plan_.machine_of_worker, machine_)) : 1;
    Add("file buffers", std::min(D(plan_.cores / plan_.nodes) * kFileBuffers, stored_),
        "trainer.cores");
    Add("programs",
        kProcess * (HasWorkers(engine) ? engines + 1 : 1) +
            (kRank + (plan_.nodes > 1 ? kRemoteBlock : 0)) * ranks() + (plan_.nodes > 1 ? kMpi : 0),
        "");
    if (engine.place != EnginePlace::kHost || engines == 0) return OkStatus();
    NXDKIT_ASSIGN(const ParamTable table,
                  MakeParamTable(model_.model, static_cast<int>(engine.tp), 0));
    const models::ModelConfig& shapes = model_.model.config;
    const double ranks = engines * D(engine.tp);
    const double element = D(ElementBytes(engine.dtype));
    // The embedding is kept both for look-ups and, packed, for the logits.
    const double packed = D(table.size) + D(table.vocab) * D(shapes.hidden);
    Add("rollout weights", ranks * packed * element,
        Keys({{engine.dtype != Dtype::kBF16, "worker.rollout.dtype=bf16"},
              {engines > 1, "fewer rollout workers"}}));
    const double cache = 2 * D(shapes.layers) * D(engine.slots) * D(table.kv_heads) *
                         D(RoundUp(engine.positions, 16)) * D(RoundUp(shapes.head_dim, 16));
    Add("KV cache", ranks * cache * element,
        "worker.rollout.neuron_override_config.batch_size and seq_len");
    const double wide = D((table.heads + 2 * table.kv_heads) * shapes.head_dim);
    const double row = 4 * D(shapes.hidden) + 2 * wide + 3 * D(table.intermediate);
    const double pass =
        D(std::max(kPassTokens, engine.slots)) * row + D(engine.slots) * D(table.vocab);
    Add("rollout passes", ranks * 4 * pass, "worker.rollout.neuron_override_config.batch_size");
    return OkStatus();
  }

  MemoryEstimate Take() { return std::move(estimate_); }

 private:
  void Add(std::string name, double bytes, std::string keys) {
    constexpr double kMost = 9e18;
    if (bytes > 0)
      estimate_.parts.push_back(
          {std::move(name), static_cast<uint64_t>(std::min(bytes, kMost)), std::move(keys)});
  }

  std::string OptimizerKeys(std::string_view section, const UpdaterConfig& updater) const {
    if (KeepsWeightsInBf16(updater.optim)) return "";
    return fmt::format("{}.optim.strategy=adamw_bf16{}", section,
                       wide() ? " with worker.actor.compute_dtype=bf16" : "");
  }
  static std::string PassKeys(const std::string& section, const UpdaterConfig& updater) {
    return Keys({{updater.micro_batch_size_per_device_for_update > 1,
                  section + ".micro_batch_size_per_device_for_update"},
                 {updater.micro_batch_size_per_device_for_experience > 1,
                  section + ".micro_batch_size_per_device_for_experience"},
                 {!updater.model.enable_gradient_checkpointing,
                  section + ".model.enable_gradient_checkpointing=true"},
                 {true, "data.max_response_length"}});
  }

  bool HasWorkers(const EngineShape& engine) const {
    return plan_.worker_processes() && engine.place != EnginePlace::kElsewhere;
  }
  bool wide() const { return compute() != Dtype::kBF16; }
  Dtype compute() const { return ComputeDtype(config_); }
  // The ranks of this machine.
  double ranks() const { return D(plan_.ranks_of_machine[static_cast<size_t>(machine_)]); }
  Result<ParamTable> TableOf(const DecoderConfig& model) const {
    return MakeParamTable(model.model, static_cast<int>(plan_.train_tp), 0);
  }

  // The sizes of one model, on all ranks.
  struct Sizes {
    double weights = 0, gradients = 0, optimizer = 0;
  };
  Result<Sizes> SizesOf(const ParamTable& table, const OptimConfig& optim) const {
    NXDKIT_ASSIGN(const OptimizerType type, ParseOptimizerType(optim.strategy));
    const double elements = ranks() * D(table.size);
    const bool master = compute() == Dtype::kBF16;
    const double state = type != OptimizerType::kAdamW ? 6 : master ? 12 : 8;
    // The optimizer's state is cut over the data-parallel ranks.
    return Sizes{elements * D(ElementBytes(compute())), 4 * elements,
                 state * elements / D(plan_.data_parallel)};
  }

  // The passes of one rank. Buffers are kept between passes, so it ends with the larger of both
  // kinds.
  struct Passes {
    double forward = 0, backward = 0;
  };
  Passes PassesOf(const Activations& rank, const UpdaterConfig& section,
                  int64_t rows_per_update) const {
    const double response = D(config_.data.max_response_length);
    const double row = D(config_.data.max_prompt_length) + response;
    const double update =
        D(std::min(section.micro_batch_size_per_device_for_update, rows_per_update));
    const double experience =
        D(std::min(section.micro_batch_size_per_device_for_experience,
                   plan_.sequences / std::max<int64_t>(1, plan_.data_parallel)));
    // When packing by tokens, short prompts leave room for more responses.
    const double targets = section.dynamic_batching ? row : response;
    return {
        rank.Forward(experience * row, experience * targets),
        rank.Backward(update * row, update * targets, section.model.enable_gradient_checkpointing)};
  }

  const Config& config_;
  const RunPlan& plan_;
  const DecoderConfig& model_;
  const int64_t machine_;
  MemoryEstimate estimate_;
  double stored_ = 0;  // bytes of a checkpoint
};

std::string Gib(uint64_t bytes) {
  const double gib = static_cast<double>(bytes) / kGib;
  return fmt::format("{:.{}f}", gib, gib < 10 ? 2 : 1);
}

std::string PartsText(const MemoryEstimate& estimate) {
  std::string text;
  for (const MemoryPart& part : estimate.parts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", part.name, Gib(part.bytes));
  return text;
}

}  // namespace

uint64_t MemoryEstimate::bytes() const {
  uint64_t sum = 0;
  for (const MemoryPart& part : parts) sum += std::min(part.bytes, UINT64_MAX - sum);
  return sum;
}

Result<MemoryEstimate> EstimateMemory(const Config& config, const RunPlan& plan,
                                      const DecoderConfig& model, const EngineShape& engine,
                                      const DecoderConfig* critic, int64_t machine) {
  Estimator estimator(config, plan, model, machine);
  NXDKIT_TRY(estimator.Train());
  if (critic) NXDKIT_TRY(estimator.TrainCritic(*critic));
  NXDKIT_TRY(estimator.Rollout(engine));
  return estimator.Take();
}

std::string MemoryText(const MemoryEstimate& estimate, uint64_t limit) {
  return fmt::format("memory: at most {} GiB of {}: {}", Gib(estimate.bytes()), Gib(limit),
                     PartsText(estimate));
}

Status CheckMemory(const MemoryEstimate& estimate, uint64_t limit) {
  if (estimate.bytes() <= limit) return OkStatus();
  std::vector<MemoryPart> largest = estimate.parts;
  std::ranges::stable_sort(largest, std::ranges::greater(), &MemoryPart::bytes);
  std::string hint;
  constexpr size_t kShown = 3;
  for (size_t i = 0; i < std::min(kShown, largest.size()); ++i)
    if (!largest[i].keys.empty())
      hint += fmt::format("{}{}: {}", hint.empty() ? "to lower it: " : "; ", largest[i].name,
                          largest[i].keys);
  return OverLimit("the run may take {} GiB, and there are {}: {}", Gib(estimate.bytes()),
                   Gib(limit), PartsText(estimate))
      .hint(hint + "; trainer.check_memory=false tries it anyway");
}

}  // namespace nxdkit::trainer
