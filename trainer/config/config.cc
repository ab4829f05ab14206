#include "trainer/config/config.h"

#include "formats/hf/hub_cache.h"
#include "trainer/config/key_table.h"

namespace nxdkit::trainer {

bool KeepsWeightsInBf16(const OptimConfig& optim) {
  return optim.strategy.starts_with("adamw_bf16");
}

void DeriveConfig(Config& config) {
  ActorConfig& actor = config.worker.actor;
  for (ModelSection* model : {&actor.model, &config.worker.critic.model})
    if (!model->tokenizer_path) model->tokenizer_path = model->model_path;
  if (!actor.compute_dtype) actor.compute_dtype = KeepsWeightsInBf16(actor.optim) ? "bf16" : "f32";
  TrainerConfig& trainer = config.trainer;
  if (!trainer.save_checkpoint_path)
    trainer.save_checkpoint_path =
        "checkpoints/" + trainer.project_name + "/" + trainer.experiment_name;
}

void UseHubCache(Config& config) {
  for (ModelSection* model : {&config.worker.actor.model, &config.worker.critic.model})
    for (std::optional<std::string>* path : {&model->model_path, &model->tokenizer_path}) {
      if (!*path || !hf::IsHubName(**path)) continue;
      const auto found = hf::FindInHubCache(hf::HubKind::kModel, **path);
      if (found.ok()) *path = *found;
    }
}

Dtype ComputeDtype(const Config& config) {
  return config.worker.actor.compute_dtype == "bf16" ? Dtype::kBF16 : Dtype::kF32;
}

bool NeedsCritic(const Config& config) { return config.algorithm.adv_estimator == "gae"; }

std::vector<UnreadValue> UnreadDefaults() {
  std::vector<UnreadValue> values;
  for (const ConfigKey& key : ConfigKeys())
    if (key.unread) values.push_back(*key.unread);
  return values;
}

}  // namespace nxdkit::trainer
