#include "trainer/loop/instance_fit.h"

#include "formats/kinds/rollout/rollout_use.h"
#include "trainer/model/param_table.h"

namespace nxdkit::trainer {
namespace {

Result<uint64_t> RankElements(const DecoderConfig& model, int64_t tp) {
  NXDKIT_ASSIGN(const ParamTable table, MakeParamTable(model.model, static_cast<int>(tp), 0));
  return static_cast<uint64_t>(table.size);
}

Result<hardware::RolloutUse> EngineUse(const DecoderConfig& model, const EngineShape& engine) {
  rollout::NeuronConfig made;
  static_cast<rollout::Geometry&>(made) = engine.layout;
  made.tp = static_cast<int>(engine.tp);
  made.batch_size = engine.slots;
  made.sequence_length = engine.positions;
  return kinds::RolloutUseOf(model.model, made, engine.dtype);
}

hardware::States StatesOf(const OptimConfig& optim) {
  return KeepsWeightsInBf16(optim) ? hardware::States::kBf16Kahan : hardware::States::kMixed;
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
  const bool rolls_out = engine.place != EnginePlace::kElsewhere;
  hardware::RolloutUse rollout;
  if (rolls_out) NXDKIT_TRY(EngineUse(model, engine).To(rollout));
  hardware::TrainingUse training{
      .tp = plan.train_tp,
      .rank_elements = elements,
      .nodes = plan.nodes,
      .cores = plan.train_cores,
      .cores_beside = plan.separate && rolls_out ? plan.rollout_cores : 0,
      .zero1 = true,
      .states = StatesOf(actor.optim),
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
        {"critic",
         hardware::TrainedBytes(own, StatesOf(config.worker.critic.optim), plan.data_parallel)});
  }
  if (!plan.separate && rolls_out) {
    training.beside.push_back({"rollout weights", rollout.weight_bytes});
    training.beside.push_back({"KV cache", rollout.cache_bytes(), hardware::Grows::kWithCache});
  }
  std::vector<hardware::Fit> fits = {FitTraining(instance, training)};
  if (rolls_out) fits.push_back(FitRollout(instance, rollout));
  return fits;
}

}  // namespace nxdkit::trainer
