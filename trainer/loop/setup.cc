#include "trainer/loop/setup.h"

#include <fmt/core.h>

#include <utility>

#include "lib/system/system.h"
#include "trainer/loop/instance_fit.h"
#include "trainer/loop/memory_estimate.h"
#include "trainer/loop/setup_generation.h"
#include "trainer/loop/setup_models.h"
#include "trainer/loop/setup_text.h"

namespace nxdkit::trainer {
namespace {

// The run itself will choose; what it would refuse is told before anything is loaded.
Result<std::optional<FoundCheckpoint>> FindContinued(const SetupContext& setup) {
  const TrainerConfig& trainer = setup.config.trainer;
  NXDKIT_ASSIGN(
      std::optional<FoundCheckpoint> found,
      ChooseCheckpoint(setup.root(), trainer.load_checkpoint_path, trainer.find_last_checkpoint));
  if (!found) return found;
  for (const std::string& warning : found->warnings) setup.Warn(warning);
  if (found->choice) setup.Tell(*found->choice);
  return found;
}

Status CheckInstance(const SetupContext& setup, const std::vector<hardware::Fit>& fits) {
  constexpr const char* kCache =
      "worker.rollout.neuron_override_config.batch_size or data.max_response_length";
  hardware::Levers levers{.parallel = "worker.actor.tensor_parallel_size",
                          .micro_batch = "worker.actor.micro_batch_size_per_device_for_update",
                          .cache = kCache};
  for (const char* what = "training"; const hardware::Fit& fit : fits) {
    NXDKIT_TRY(hardware::CheckFit(fit, levers).member(what));
    levers.parallel = "worker.rollout.tensor_parallel_size";
    setup.Note(
        fmt::format("{}, {}: {}", fit.instance, std::exchange(what, "rollout"), FitText(fit)));
    for (const std::string& warning : fit.warnings) setup.Warn(warning);
  }
  return OkStatus();
}

// Before minutes are spent on weights.
Status CheckRoom(const SetupContext& setup, const RunModels& models, const EngineShape& engine) {
  const auto& [config, plan, hooks] = static_cast<const LoopContext&>(setup);
  const DecoderConfig* critic = models.critic_model ? &models.critic_model->config : nullptr;
  if (const hardware::Instance* instance = setup.options.instance) {
    NXDKIT_ASSIGN(const std::vector<hardware::Fit> fits,
                  FitInstance(*instance, config, plan, *models.config, engine, critic));
    NXDKIT_TRY(CheckInstance(setup, fits));
  }
  const std::optional<uint64_t> limit = MemoryLimitBytes();
  // The others are taken to have as much as this machine.
  for (int64_t machine = 0; machine < plan.nodes; ++machine) {
    NXDKIT_ASSIGN(const MemoryEstimate estimate,
                  EstimateMemory(config, plan, *models.config, engine, critic, machine));
    if (!limit) continue;
    const std::string which = plan.nodes > 1 ? fmt::format("machine {}: ", machine) : "";
    setup.Note(which + MemoryText(estimate, *limit));
    if (config.trainer.check_memory) NXDKIT_TRY(CheckMemory(estimate, *limit));
  }
  return OkStatus();
}

// All that needs no weights. Changes no files.
Status CheckAll(const SetupContext& setup, RunParts& parts) {
  NXDKIT_ASSIGN(const std::optional<FoundCheckpoint> continued, FindContinued(setup));
  NXDKIT_TRY(OpenModels(setup, parts.models));
  NXDKIT_ASSIGN(parts.engines.shape, ShapeOfEngine(setup, *parts.models.config));
  NXDKIT_TRY(CheckRoom(setup, parts.models, parts.engines.shape));
  return OpenTextAndData(setup, parts.models, continued, parts.data, parts.record);
}

}  // namespace

Status CheckParts(const SetupContext& setup) {
  RunParts parts;
  return CheckAll(setup, parts);
}

Result<RunParts> MakeParts(const SetupContext& setup) {
  RunParts parts;
  NXDKIT_TRY(CheckAll(setup, parts));
  NXDKIT_ASSIGN(parts.data.score_validation, MakeScorer(setup));
  NXDKIT_TRY(LoadModels(setup, parts.models));
  NXDKIT_TRY(MakeEngines(setup, parts.models, parts.record.text_files, parts.engines));
  return parts;
}

}  // namespace nxdkit::trainer
