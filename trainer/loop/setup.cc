#include "trainer/loop/setup.h"

#include <fmt/core.h>

#include <utility>

#include "formats/kinds/open.h"
#include "formats/ops/verify/checksums.h"
#include "formats/ops/verify/compare.h"
#include "lib/plan/plan.h"
#include "lib/system/folders.h"
#include "lib/system/system.h"
#include "trainer/config/check_model.h"
#include "trainer/loop/instance_fit.h"
#include "trainer/loop/memory_estimate.h"
#include "trainer/loop/setup_generation.h"
#include "trainer/loop/setup_text.h"

namespace nxdkit::trainer {
namespace {

// The run itself will choose; its refusals are reported here, before anything is loaded.
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

// Checked before minutes are spent on weights.
Status CheckRoom(const SetupContext& setup, const RunModels& models, const EngineShape& engine) {
  const auto& [config, plan, hooks] = static_cast<const LoopContext&>(setup);
  const DecoderConfig* critic = models.critic_model ? &models.critic_model->config : nullptr;
  if (const hardware::Instance* instance = setup.options.instance) {
    NXDKIT_ASSIGN(const std::vector<hardware::Fit> fits,
                  FitInstance(*instance, config, plan, *models.config, engine, critic));
    NXDKIT_TRY(CheckInstance(setup, fits));
  }
  const std::optional<uint64_t> limit = MemoryLimitBytes();
  // The other machines are assumed to have as much as this one.
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

ModelFacts FactsOf(const DecoderConfig& config) {
  const models::ModelConfig& shapes = config.model.config;
  return {shapes.heads, shapes.kv_heads, shapes.vocab, shapes.intermediate, config.max_positions};
}

Result<artifact::BoundArtifact> OpenSource(const SetupContext& setup, const std::string& path) {
  NXDKIT_ASSIGN(artifact::BoundArtifact opened, kinds::OpenAndBind(path, nullptr, {}));
  for (const std::string& warning : opened.artifact.warnings) setup.Warn(warning);
  for (const Choice& choice : opened.artifact.choices) setup.Tell(choice);
  return opened;
}

// Tensors that are stored nowhere would only be missed when the weights are read. A merged model is
// stored in two places: its base's, and its adapter's.
Status CheckComplete(const artifact::BoundArtifact& source, const ModelSection& section) {
  if (source.base || source.merged || source.lora) return OkStatus();
  const auto places = PrimaryPlaces::Find(source.params, source.bound.layout);
  return places.ok() ? OkStatus() : Status(Error(places.error()).in(*section.model_path));
}

Status OpenActor(const SetupContext& setup, RunModels& models) {
  const ModelSection& section = setup.config.worker.actor.model;
  NXDKIT_ASSIGN(models.base, OpenSource(setup, *section.model_path));
  NXDKIT_TRY(CheckComplete(models.base, section));
  const artifact::Artifact& artifact = models.base.artifact;
  NXDKIT_ASSIGN(DecoderConfig config,
                ParseDecoderConfig(artifact.config_text, artifact.config_path));
  const std::vector<ConfigProblem> problems = CheckModel(setup.loaded, FactsOf(config));
  if (!problems.empty()) return ProblemsError(problems);
  models.config = std::make_unique<const DecoderConfig>(std::move(config));
  return OkStatus();
}

Status OpenCritic(const SetupContext& setup, RunModels& models) {
  const ModelSection& section = setup.config.worker.critic.model;
  NXDKIT_ASSIGN(artifact::BoundArtifact opened, OpenSource(setup, *section.model_path));
  NXDKIT_ASSIGN(CriticModel critic,
                MakeCriticModel(std::move(opened), static_cast<uint64_t>(setup.config.data.seed)));
  NXDKIT_TRY(CheckComplete(critic.source, section));
  const std::vector<ConfigProblem> problems =
      CheckCriticModel(setup.loaded, FactsOf(critic.config));
  if (!problems.empty()) return ProblemsError(problems);
  for (const std::string& note : critic.notes) setup.Note("critic: " + note);
  models.critic_model = std::make_unique<const CriticModel>(std::move(critic));
  return OkStatus();
}

// `section`: worker.actor or worker.critic.
Result<MeshOptions> MeshOf(const SetupContext& setup, const UpdaterConfig& section) {
  const DataConfig& data = setup.config.data;
  const int64_t row_tokens = data.max_prompt_length + data.max_response_length;
  const auto pass = [&](int64_t rows) {
    return MeshOptions::MicroBatch{rows * row_tokens, section.dynamic_batching ? 0 : rows};
  };
  const OptimConfig& optim = section.optim;
  const RunPlan& plan = setup.plan;
  MeshOptions options;
  options.tp = static_cast<int>(plan.train_tp);
  options.dp = static_cast<int>(plan.data_parallel);
  options.ranks_of_process.assign(plan.ranks_of_machine.begin(), plan.ranks_of_machine.end());
  options.decoder.compute = ComputeDtype(setup.config);
  options.decoder.recompute = section.model.enable_gradient_checkpointing;
  options.decoder.max_positions = row_tokens;
  options.max_grad_norm = section.max_grad_norm;
  options.update = pass(section.micro_batch_size_per_device_for_update);
  options.experience = pass(section.micro_batch_size_per_device_for_experience);
  NXDKIT_ASSIGN(options.optimizer.type, ParseOptimizerType(optim.strategy));
  options.optimizer.adam = {optim.betas[0], optim.betas[1], 1e-8, optim.weight_decay};
  options.optimizer.seed = static_cast<uint64_t>(data.seed);
  options.overlap =
      setup.config.trainer.overlap_gradients ? Overlap::kOverProcesses : Overlap::kNever;
  options.transport = setup.options.transport;
  options.led = setup.options.leader != nullptr;
  options.leader = setup.options.leader;
  NXDKIT_ASSIGN(std::string real_model, RealPath(*section.model.model_path));
  options.origin = {std::move(real_model), false, options.optimizer.seed};
  return options;
}

// Weights are read once, each from one place: otherwise training would use a damaged element, or an
// arbitrary one of two copies that differ, such as a head next to tied embeddings.
Status CheckWeights(const SetupContext& setup, const artifact::BoundArtifact& source) {
  artifact::RunOptions run = setup.FileOptions(setup.hooks.poll);
  run.max_memory = artifact::RunOptions().max_memory;
  NXDKIT_TRY(ops::RequireSound(source, run));
  NXDKIT_ASSIGN(const std::vector<artifact::Finding> damaged,
                ops::CheckChecksums(source.artifact, run));
  return ops::FirstAsError(damaged);
}

// Restores the optimizer's state from next to the weights, if it is asked for. The run is new: its
// steps and its schedule are counted from 0, but the optimizer's own steps continue.
Status RestoreState(const SetupContext& setup, const UpdaterConfig& section, MeshModel& model) {
  if (!section.optim.from_model) return OkStatus();
  artifact::RunOptions run = setup.FileOptions(setup.hooks.poll);
  run.max_memory = artifact::RunOptions().max_memory;
  const std::string& path = model.options().origin.path;
  Status restored = model.Restore(path, run);
  if (!restored.ok())
    return std::move(restored).error().hint(
        "worker.actor.optim.from_model=false starts the optimizer from zeros; the state of "
        "another worker.actor.optim.strategy cannot be used");
  setup.Note(fmt::format("the optimizer continues from {}, after {} updates", path,
                         model.optimizer().step));
  return OkStatus();
}

// Opens the models that the configuration names, and checks their shapes against it.
Status OpenModels(const SetupContext& setup, RunModels& models) {
  NXDKIT_TRY(OpenActor(setup, models));
  return NeedsCritic(setup.config) ? OpenCritic(setup, models) : OkStatus();
}

// Reads the weights into meshes of ranks, and checks every element. A continued run has its own
// optimizer state.
Status LoadModels(const SetupContext& setup, bool continues, RunModels& models) {
  NXDKIT_TRY(CheckWeights(setup, models.base));
  if (models.critic_model) {
    const artifact::BoundArtifact& source = models.critic_model->source;
    NXDKIT_TRY(CheckWeights(setup, source));
    NXDKIT_ASSIGN(MeshOptions options, MeshOf(setup, setup.config.worker.critic));
    options.origin.critic = true;
    NXDKIT_ASSIGN(models.critic, MeshModel::Make(models.critic_model->config, options, source));
    if (!continues) NXDKIT_TRY(RestoreState(setup, setup.config.worker.critic, *models.critic));
  }
  NXDKIT_ASSIGN(MeshOptions options, MeshOf(setup, setup.config.worker.actor));
  options.temperature = static_cast<float>(setup.config.worker.rollout.temperature);
  NXDKIT_ASSIGN(models.actor, MeshModel::Make(*models.config, options, models.base));
  if (!continues) NXDKIT_TRY(RestoreState(setup, setup.config.worker.actor, *models.actor));
  if (setup.config.algorithm.disable_kl) return OkStatus();
  options.decoder.trainable = false;
  NXDKIT_ASSIGN(models.reference, MeshModel::Make(*models.config, options, models.base));
  return OkStatus();
}

// All checks that need no weights. Changes no files.
Status CheckAll(const SetupContext& setup, RunParts& parts) {
  NXDKIT_ASSIGN(const std::optional<FoundCheckpoint> continued, FindContinued(setup));
  parts.record.continues = continued.has_value();
  parts.record.continues_from = continued ? continued->step : 0;
  NXDKIT_TRY(OpenModels(setup, parts.models));
  NXDKIT_ASSIGN(parts.engines.shape, ShapeOfEngine(setup, *parts.models.config));
  NXDKIT_TRY(CheckRoom(setup, parts.models, parts.engines.shape));
  return OpenTextAndData(setup, parts.models, continued, parts.data, parts.record);
}

}  // namespace

Result<CheckedRun> CheckParts(const SetupContext& setup) {
  RunParts parts;
  NXDKIT_TRY(CheckAll(setup, parts));
  return CheckedRun{parts.record.continues_from, parts.record.training_steps};
}

Result<RunParts> MakeParts(const SetupContext& setup) {
  RunParts parts;
  NXDKIT_TRY(CheckAll(setup, parts));
  NXDKIT_ASSIGN(parts.data.score_validation, MakeScorer(setup));
  NXDKIT_TRY(LoadModels(setup, parts.record.continues, parts.models));
  NXDKIT_TRY(MakeEngines(setup, parts.models, parts.record.text_files, parts.engines));
  return parts;
}

}  // namespace nxdkit::trainer
