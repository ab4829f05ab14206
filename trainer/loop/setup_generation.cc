#include "trainer/loop/setup_generation.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "formats/kinds/table.h"
#include "formats/ops/export/export.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "lib/system/system.h"
#include "trainer/loop/deliveries.h"
#include "trainer/loop/others_engine.h"
#include "trainer/loop/remote_workers.h"

namespace nxdkit::trainer {
namespace {

using Predicted = std::optional<ops::EngineGeometry>;

// The layout of the model in another program's engine; nullopt: unknown. kUnsupported when vLLM
// itself would refuse the model, and when the requested layout is unknown.
Result<Predicted> PredictsEngine(const SetupContext& setup, const DecoderConfig& model) {
  const RolloutConfig& rollout = setup.config.worker.rollout;
  if (rollout.model_path) return Predicted();
  const int tp = static_cast<int>(setup.plan.rollout_tp);
  const bool whole = rollout.enable_expert_parallel;
  const bool neuron = OnVllmNeuron(rollout);
  ops::EngineGeometry geometry = vllm::Geometry{.tp = tp, .expert_parallel = whole};
  // Expert parallelism is over all ranks unless its degree is set (from the engine's source code).
  if (neuron) geometry = vllm_neuron::Geometry{.tp = tp, .ep = whole ? tp : 1};
  const Status known = ops::CheckPredictable(model.model, geometry, RolloutDtype(rollout));
  if (known.ok()) return Predicted(geometry);
  if (neuron) return Error(known.error()).member("worker.rollout.engine_layout");
  if (rollout.engine == "vllm")
    return Error(known.error()).member("worker.rollout.tensor_parallel_size");
  return Predicted();
}

// Without the engine's log-probabilities, the tokens do not show which weights produced them.
Status CheckLogProbs(const SetupContext& setup, const EngineShape& engine) {
  if (engine.tells_log_probs) return OkStatus();
  if (setup.config.algorithm.rollout_is != "off")
    return BadUsage(
               "the bundle samples on the device and returns no log-probabilities, which "
               "importance weights need")
        .member("algorithm.rollout_is")
        .hint("set it to off, or make the bundle with neuron-export --no-on-device-sampling");
  setup.Warn(
      "the bundle samples on the device and returns no log-probabilities, so they cannot show "
      "that the engine has the weights of the step (worker.rollout.max_log_prob_gap)");
  return OkStatus();
}

EngineOptions EngineFor(const SetupContext& setup, const std::string& bundle) {
  const NeuronOverrideConfig& over = setup.config.worker.rollout.neuron_override_config;
  return {.bundle = bundle,
          .neuron_override = {.tp_degree = over.tp_degree.value_or(setup.plan.rollout_tp),
                              .batch_size = over.batch_size,
                              .seq_len = over.seq_len}};
}

Status MakeBundle(const SetupContext& setup, const kinds::Kind* from, const EngineShape& engine,
                  SyncTarget& sync) {
  sync.bundle = JoinPath(setup.root(), "rollout_bundle");
  ops::ExportRequest request;
  request.cpu = true;
  request.cache.enabled = false;
  request.convert.from = from;
  request.convert.to = &kinds::kRollout;
  request.convert.input = *setup.config.worker.actor.model.model_path;
  request.convert.output = sync.bundle;
  request.convert.force = true;
  request.convert.sync = false;
  request.convert.run.max_memory = kNoMemoryCap;
  request.convert.options.Set("tp", static_cast<int>(engine.tp));
  request.convert.options.Set("bs", static_cast<int>(engine.slots));
  request.convert.options.Set("seq", static_cast<int>(engine.positions));
  request.convert.options.dtype = engine.dtype;
  NXDKIT_TRY(ops::Export(request));
  NXDKIT_TRY(WriteTextFiles(sync.text, sync.bundle));
  setup.Note(fmt::format("made the rollout bundle {}: tp {}, {} of {}", sync.bundle, engine.tp,
                         Counted(engine.slots, "slot"), Counted(engine.positions, "token")));
  return OkStatus();
}

// The bundle of the configuration, a newly created one, or a place for folders.
Status MakeSyncTarget(const SetupContext& setup, const RunModels& models, const EngineShape& engine,
                      SyncTarget& sync) {
  const RolloutConfig& rollout = setup.config.worker.rollout;
  if (rollout.model_path) {
    NXDKIT_ASSIGN(sync.bundle, RealPath(*rollout.model_path));
    return OkStatus();
  }
  if (!OthersEngine(rollout)) return MakeBundle(setup, models.base.artifact.kind, engine, sync);
  sync.folder = JoinPath(setup.root(), "rollout_model");
  sync.dtype = engine.dtype;
  NXDKIT_ASSIGN(sync.engine, PredictsEngine(setup, *models.config));
  NXDKIT_TRY(MakeFolders(sync.folder));
  // A server has its own working folder.
  NXDKIT_ASSIGN(sync.folder, RealPath(sync.folder));
  return OkStatus();
}

// Rollout workers on other machines read the weights from where they are written here, or receive
// them.
Status LookElsewhere(const SetupContext& setup, SyncTarget& sync) {
  Leader* leader = setup.options.leader;
  if (leader == nullptr || !setup.config.worker.rollout.url.empty()) return OkStatus();
  const std::set<int64_t> machines(setup.plan.machine_of_worker.begin(),
                                   setup.plan.machine_of_worker.end());
  std::vector<int> others;
  for (const int64_t machine : machines)
    if (machine != 0) others.push_back(static_cast<int>(machine));
  if (others.empty()) return OkStatus();
  auto deliveries = std::make_shared<Deliveries>(*leader, std::move(others));
  const std::string folder = sync.bundle.empty() ? sync.folder : ParentPath(sync.bundle);
  NXDKIT_TRY(deliveries->Look(folder));
  if (deliveries->blind().empty()) return OkStatus();
  for (const int machine : deliveries->blind())
    setup.Note(fmt::format("machine {} does not see {}: the weights of every step are sent to it",
                           machine, folder));
  sync.elsewhere = std::move(deliveries);
  return OkStatus();
}

WorkerPoolOptions PoolFor(const SetupContext& setup) {
  const SetupOptions& options = setup.options;
  const bool others = OthersEngine(setup.config.worker.rollout);
  WorkerPoolOptions pool = {.workers = static_cast<int>(setup.plan.rollout_workers),
                            .command = options.worker_command,
                            .environment = options.rollout_environment.all,
                            .environment_of = options.rollout_environment.of,
                            .log_files = options.worker_logs,
                            .on_warning = setup.hooks.note};
  if (others) {
    pool.grace = kOthersGrace;
    for (std::string& variable : OthersVariables()) pool.environment.push_back(std::move(variable));
  }
  if (options.leader == nullptr) return pool;
  // On several machines: the starter has a copy, so everything else is set by now.
  const bool have_cores =
      (setup.plan.separate || others) && setup.config.worker.rollout.url.empty();
  const int64_t cores = options.instance ? options.instance->cores : 0;
  const RemoteWorkers workers{setup.plan, pool, others, have_cores, cores};
  pool.start = workers.StarterOf(*options.leader);
  pool.environment_of.clear();  // it was for this machine's workers
  return pool;
}

// Our own engine; without cores of its own, it has all cores of the machine while it generates.
EngineOptions OwnEngine(const SetupContext& setup, const std::string& bundle, int64_t tp) {
  const RunPlan& plan = setup.plan;
  EngineOptions engine = EngineFor(setup, bundle);
  if (plan.separate) return engine;
  const int64_t cores = std::min<int64_t>(plan.cores / plan.nodes, std::ssize(AllowedProcessors()));
  engine.threads = static_cast<int>(std::max<int64_t>(1, cores / tp));
  return engine;
}

Result<std::unique_ptr<Generator>> MakeGenerator(const SetupContext& setup, int64_t vocab,
                                                 const EngineShape& shape,
                                                 const std::string& bundle) {
  std::vector<EngineOptions> engines;
  if (OthersEngine(setup.config.worker.rollout)) {
    NXDKIT_ASSIGN(engines, OthersEngines(setup.config, setup.plan, vocab, shape));
  } else {
    engines = {OwnEngine(setup, bundle, shape.tp)};
    if (!setup.plan.worker_processes())
      return MakeEngineGenerator(engines[0], setup.hooks.poll, setup.hooks.progress);
  }
  return MakeWorkerGenerator(PoolFor(setup), engines, setup.hooks.poll, setup.hooks.progress);
}

}  // namespace

Result<EngineShape> ShapeOfEngine(const SetupContext& setup, const DecoderConfig& model) {
  const RolloutConfig& rollout = setup.config.worker.rollout;
  const NeuronOverrideConfig& over = rollout.neuron_override_config;
  if (OthersEngine(rollout)) {
    NXDKIT_TRY(FindCommand(rollout));
    NXDKIT_TRY(PredictsEngine(setup, model));
    const SetupOptions& options = setup.options;
    const bool on_devices = options.instance || options.rollout_environment.has_given_cores;
    NXDKIT_ASSIGN(const EngineShape shape, OthersShape(setup.config, setup.plan, on_devices));
    NXDKIT_TRY(CheckLogProbs(setup, shape));
    return shape;
  }
  if (rollout.model_path) {
    NXDKIT_ASSIGN(const EngineFacts facts,
                  CheckEngineBundle(EngineFor(setup, *rollout.model_path)));
    return EngineShape{facts.tp, facts.batch_size, facts.seq_len, facts.dtype};
  }
  return EngineShape{
      over.tp_degree.value_or(setup.plan.rollout_tp),
      over.batch_size.value_or(std::min<int64_t>(64, setup.plan.sequences_per_worker)),
      RolloutPositions(setup.config), RolloutDtype(rollout)};
}

Status MakeEngines(const SetupContext& setup, const RunModels& models, const TextFiles& files,
                   RunEngines& engines) {
  engines.sync.text = files;
  NXDKIT_TRY(MakeSyncTarget(setup, models, engines.shape, engines.sync));
  NXDKIT_TRY(LookElsewhere(setup, engines.sync));
  NXDKIT_ASSIGN(engines.generator, MakeGenerator(setup, models.config->model.config.vocab,
                                                 engines.shape, engines.sync.bundle));
  return OkStatus();
}

}  // namespace nxdkit::trainer
