#include "trainer/loop/others_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "formats/artifact/artifact.h"
#include "formats/kinds/open.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/kinds/table.h"
#include "lib/base/errors.h"
#include "lib/system/command_text.h"
#include "lib/system/process.h"
#include "lib/system/system.h"

namespace nxdkit::trainer {
namespace {

// Token ids in and out; every request sets all sampling options; weights are replaced, and digests
// reported, while it runs (VLLM_SERVER_DEV_MODE). A server on CPUs crashes on a request with a seed
// whose prompt it reads in pieces (0.32). Facts: formats/vllm/FORMAT.md.
constexpr const char* kServe =
    "vllm serve {model} --host 127.0.0.1 --port {port} --dtype {dtype} --tensor-parallel-size {tp} "
    "--max-model-len {max_model_len} --max-num-seqs {max_num_seqs} --logprobs-mode {logprobs_mode} "
    "--skip-tokenizer-init --enable-scale-out --generation-config vllm --shutdown-timeout 20 "
    "--no-enable-chunked-prefill";
// The last one, from Python 3.11 on, stops its processes from importing modules of the working
// directory instead of its own.
const std::vector<std::string> kServeVariables = {"VLLM_SERVER_DEV_MODE=1", "HF_HUB_OFFLINE=1",
                                                  "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1",
                                                  "PYTHONSAFEPATH=1"};
constexpr std::string_view kBind = "VLLM_CPU_OMP_THREADS_BIND=";

constexpr std::array<std::string_view, 16> kOthersPrefixes = {
    "VLLM_", "HF_",   "HUGGINGFACE_", "TRANSFORMERS_", "PYTHON",  "VIRTUAL_ENV",
    "CUDA_", "NCCL_", "GLOO_",        "TORCH",         "TRITON_", "OMP_",
    "KMP_",  "XDG_",  "XLA_",         "LD_PRELOAD"};

}  // namespace

bool OthersEngine(const RolloutConfig& rollout) { return rollout.engine != "cpu"; }

bool OnVllmNeuron(const RolloutConfig& rollout) { return rollout.engine_layout == "vllm-neuron"; }

std::string BoundProcessors(const std::vector<int>& processors, int64_t first, int64_t ranks,
                            int64_t all) {
  const auto begin = [&](int64_t rank) {
    return static_cast<size_t>(rank * std::ssize(processors) / all);
  };
  std::vector<std::string> parts;
  for (int64_t rank = first; rank < first + ranks; ++rank)
    parts.push_back(fmt::format(
        "{}",
        fmt::join(std::span(processors).subspan(begin(rank), begin(rank + 1) - begin(rank)), ",")));
  return fmt::format("{}", fmt::join(parts, "|"));
}

Result<EngineShape> OthersShape(const Config& config, const RunPlan& plan, bool on_devices) {
  const RolloutConfig& rollout = config.worker.rollout;
  const NeuronOverrideConfig& over = rollout.neuron_override_config;
  EngineShape shape{.tp = plan.rollout_tp,
                    .slots = over.batch_size.value_or(rollout.max_in_flight),
                    .positions = RolloutPositions(config),
                    .dtype = RolloutDtype(rollout)};
  if (!rollout.url.empty()) shape.place = EnginePlace::kElsewhere;
  if (on_devices && rollout.url.empty()) shape.place = EnginePlace::kDevice;
  shape.layout.flavor = rollout::Flavor::kNxdi;  // for vLLM Neuron, which compiles by itself
  if (!rollout.model_path) return shape;
  NXDKIT_ASSIGN(const artifact::Artifact opened,
                kinds::OpenArtifact(*rollout.model_path, &kinds::kRollout, {}));
  const rollout::Bundle& bundle = *kinds::BundleOf(opened);
  if (!bundle.config)
    return Unsupported("rank shards without a neuron_config.json are not a bundle")
        .in(*rollout.model_path);
  const rollout::NeuronConfig& made = *bundle.config;
  shape.tp = made.tp;
  shape.slots = made.batch_size;
  shape.positions = made.sequence_length;
  shape.dtype = DtypeFromTorchName(made.torch_dtype).value_or(shape.dtype);
  shape.layout = made;
  if (bundle.has_cpu_plan) {
    if (shape.place == EnginePlace::kDevice) shape.place = EnginePlace::kHost;
    return shape;
  }
  shape.place = EnginePlace::kDevice;
  shape.tells_log_probs = !made.on_device_sampling;
  return shape;
}

Result<std::vector<EngineOptions>> OthersEngines(const Config& config, const RunPlan& plan,
                                                 int64_t vocab, const EngineShape& shape) {
  const RolloutConfig& rollout = config.worker.rollout;
  EngineOptions engine;
  engine.kind = rollout.engine == "vllm" ? EngineKind::kVllm : EngineKind::kExec;
  engine.other.starts_anew = OnVllmNeuron(rollout);
  engine.other.tp = plan.rollout_tp;
  engine.other.vocab = vocab;
  engine.other.seq_len = shape.positions;
  engine.other.dtype = shape.dtype;
  engine.other.temperature = static_cast<float>(rollout.temperature);
  const bool compiled = shape.place == EnginePlace::kDevice;  // for as many as there are slots
  engine.other.in_flight =
      compiled ? std::min(rollout.max_in_flight, shape.slots) : rollout.max_in_flight;
  engine.other.tells_log_probs = shape.tells_log_probs;
  engine.other.start_seconds = rollout.start_timeout_s;
  engine.other.answer_seconds = rollout.answer_timeout_s;
  if (rollout.url.empty()) {
    NXDKIT_ASSIGN(engine.other.command, SplitCommand(rollout.command.value_or(kServe)));
    if (!rollout.command && rollout.enable_expert_parallel)
      engine.other.command.emplace_back("--enable-expert-parallel");
  }
  if (engine.kind == EngineKind::kVllm) engine.other.variables = kServeVariables;
  std::vector<EngineOptions> out(static_cast<size_t>(plan.rollout_workers), engine);
  const std::vector<int> processors = AllowedProcessors();
  const auto machines = plan.machine_of_worker.begin();
  for (size_t i = 0; i < out.size(); ++i) {
    OtherEngine& other = out[i].other;
    if (!rollout.url.empty()) {
      other.url = rollout.url[i];
      continue;
    }
    const int64_t machine = machines[static_cast<ptrdiff_t>(i)];
    const int64_t ranks = std::ranges::count(plan.machine_of_worker, machine) * plan.rollout_tp;
    const int64_t first =
        std::count(machines, machines + static_cast<ptrdiff_t>(i), machine) * plan.rollout_tp;
    if (ranks > 1 && std::ssize(processors) >= ranks)
      other.variables.push_back(std::string(kBind) +
                                BoundProcessors(processors, first, plan.rollout_tp, ranks));
  }
  return out;
}

Status FindCommand(const RolloutConfig& rollout) {
  if (!rollout.url.empty()) return OkStatus();
  NXDKIT_ASSIGN(const std::vector<std::string> words,
                SplitCommand(rollout.command.value_or(kServe)));
  if (FindProgram(words[0])) return OkStatus();
  return NotFound("no such program, or it may not be executed")
      .in(words[0])
      .member("worker.rollout.command");
}

std::vector<std::string> OthersVariables() { return EnvironmentOf({}, kOthersPrefixes); }

}  // namespace nxdkit::trainer
