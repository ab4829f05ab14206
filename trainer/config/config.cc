#include "trainer/config/config.h"

#include <chrono>
#include <ctime>

#include "formats/hf/hub_cache.h"
#include "lib/base/text.h"
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

std::string Today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[sizeof "2026-11-23"];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%d", &parts));
}

std::optional<int64_t> MidnightOf(std::string_view date) {
  namespace chrono = std::chrono;
  if (date.size() != 10 || date[4] != '-' || date[7] != '-') return std::nullopt;
  const auto number = [&](size_t begin, size_t count) {
    return ParseNumber<unsigned>(date.substr(begin, count));
  };
  const auto year = number(0, 4), month = number(5, 2), day = number(8, 2);
  if (!year || !month || !day || *year < 1970) return std::nullopt;
  const chrono::year_month_day parsed{chrono::year(static_cast<int>(*year)), chrono::month(*month),
                                      chrono::day(*day)};
  if (!parsed.ok()) return std::nullopt;
  return chrono::duration_cast<chrono::seconds>(chrono::sys_days(parsed).time_since_epoch())
      .count();
}

void UseHubCache(Config& config) {
  for (ModelSection* model : {&config.worker.actor.model, &config.worker.critic.model})
    for (std::optional<std::string>* path : {&model->model_path, &model->tokenizer_path}) {
      if (!*path) continue;
      const auto found = hf::IsHubName(**path) ? hf::FindInHubCache(hf::HubKind::kModel, **path)
                                               : hf::SnapshotInside(**path);
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
