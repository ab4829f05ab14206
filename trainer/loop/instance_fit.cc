#include "trainer/loop/instance_fit.h"

#include <algorithm>
#include <utility>

#include "trainer/model/param_table.h"

namespace nxdkit::trainer {
namespace {

Result<uint64_t> RankElements(const DecoderConfig& model, int64_t tp) {
  NXDKIT_ASSIGN(const ParamTable table, MakeParamTable(model.model, static_cast<int>(tp), 0));
  return static_cast<uint64_t>(table.size);
}

Result<hardware::RolloutUse> EngineUse(const DecoderConfig& model, const EngineShape& engine) {
  NXDKIT_ASSIGN(const ParamTable table,
                MakeParamTable(model.model, static_cast<int>(engine.tp), 0));
  const models::ModelConfig& shapes = model.model.config;
  const int64_t element = ElementBytes(engine.dtype);
  return hardware::RolloutUse{
      .tp = engine.tp,
      .weight_bytes = static_cast<uint64_t>(table.size) * static_cast<uint64_t>(element),
      .layers = shapes.layers,
      .batch = engine.slots,
      .sequence = engine.positions,
      .kv_heads_per_rank = table.kv_heads,
      .head_dim = shapes.head_dim,
      .element_bytes = element};
}

// The optimizer's states are cut over the data-parallel ranks: two in bf16, or three in f32.
uint64_t CriticBytes(uint64_t elements, const OptimConfig& optim, int64_t data_parallel) {
  const bool narrow = KeepsWeightsInBf16(optim);
  const auto ranks = static_cast<uint64_t>(std::max<int64_t>(1, data_parallel));
  return elements * (narrow ? 4 : 6) + elements * (narrow ? 4 : 12) / ranks;
}

}  // namespace

Result<std::vector<hardware::Fit>> FitInstance(const hardware::Instance& instance,
                                               const Config& config, const RunPlan& plan,
                                               const DecoderConfig& model,
                                               const EngineShape& engine,
                                               const DecoderConfig* critic) {
  const ActorConfig& actor = config.worker.actor;
  const models::ModelConfig& shapes = model.model.config;
  const int64_t row = config.data.max_prompt_length + config.data.max_response_length;
  NXDKIT_ASSIGN(const uint64_t elements, RankElements(model, plan.train_tp));
  NXDKIT_ASSIGN(const hardware::RolloutUse rollout, EngineUse(model, engine));
  hardware::TrainingUse training{.tp = plan.train_tp,
                                 .rank_elements = elements,
                                 .nodes = plan.nodes,
                                 .cores = plan.train_cores,
                                 .cores_beside = plan.separate ? plan.rollout_cores : 0,
                                 .zero1 = true,
                                 .bf16_states = KeepsWeightsInBf16(actor.optim),
                                 .micro_batch = actor.micro_batch_size_per_device_for_update,
                                 .sequence = row,
                                 .scored = actor.micro_batch_size_per_device_for_experience,
                                 .hidden = shapes.hidden,
                                 .layers = shapes.layers,
                                 .vocab = shapes.vocab,
                                 .recompute = actor.model.enable_gradient_checkpointing};
  if (!config.algorithm.disable_kl) training.beside.push_back({"reference", 2 * elements});
  if (critic) {
    NXDKIT_ASSIGN(const uint64_t own, RankElements(*critic, plan.train_tp));
    training.beside.push_back(
        {"critic", CriticBytes(own, config.worker.critic.optim, plan.data_parallel)});
  }
  if (!plan.separate) {
    training.beside.push_back({"rollout weights", rollout.weight_bytes});
    training.beside.push_back({"KV cache", rollout.cache_bytes(), hardware::Grows::kWithCache});
  }
  return std::vector<hardware::Fit>{FitTraining(instance, training), FitRollout(instance, rollout)};
}

}  // namespace nxdkit::trainer
