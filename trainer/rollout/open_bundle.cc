#include "trainer/rollout/open_bundle.h"

#include "formats/kinds/open.h"
#include "formats/kinds/rollout/read_rollout.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/kinds/table.h"
#include "formats/ops/verify/fitness.h"
#include "formats/rollout/cpu_plan.h"
#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/paths.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxPlanBytes = 1 << 20;

Status CheckBlob(const rollout::Bundle& bundle) {
  if (!bundle.config)
    return Unsupported("rank shards without a neuron_config.json are not a bundle");
  if (bundle.has_cpu_plan) return OkStatus();
  if (bundle.blobs.empty())
    return Unsupported("there is nothing to run: the bundle has no {}", rollout::kCpuPlanFile)
        .hint("make a bundle for this engine: neuron-export --target cpu");
  return Unsupported("{} is compiled for Neuron devices; this engine runs bundles with a {}",
                     bundle.blobs.front(), rollout::kCpuPlanFile)
      .hint(
          "worker.rollout.engine=vllm or exec runs it in a program for the devices "
          "(trainer/engines/README.md); for this engine make one with neuron-export --target cpu");
}

Result<rollout::CpuPlan> ReadPlan(const rollout::Bundle& bundle) {
  const std::string path = JoinPath(bundle.folder, std::string(rollout::kCpuPlanFile));
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, kMaxPlanBytes));
  NXDKIT_ASSIGN(rollout::CpuPlan plan, rollout::ParseCpuPlan(text, path));
  const std::vector<artifact::Finding> findings = kinds::CheckCpuPlan(bundle);
  if (findings.empty()) return plan;
  return Error(Errc::kCorrupt, findings.front().message)
      .in(path)
      .hint("export the bundle again: its configuration was changed after the plan was made");
}

// Checks the values that the training configuration requires, if any.
Status CheckOverride(const NeuronOverride& asked, const rollout::CpuPlan& plan) {
  const auto refuse = [&](const char* key, const std::string& wanted, const std::string& made) {
    return Unsupported("neuron_override_config.{} is {}, the bundle was made for {}", key, wanted,
                       made)
        .hint("change the configuration, or export the bundle again");
  };
  for (const auto& [key, wanted, made] : {std::tuple("tp_degree", asked.tp_degree, plan.tp),
                                          {"batch_size", asked.batch_size, plan.batch_size},
                                          {"seq_len", asked.seq_len, plan.sequence_length}})
    if (wanted && *wanted != made)
      return refuse(key, std::to_string(*wanted), std::to_string(made));
  if (asked.torch_dtype && *asked.torch_dtype != plan.dtype)
    return refuse("torch_dtype", *asked.torch_dtype, plan.dtype);
  return OkStatus();
}

// Compares the values in the engine's own layout with the plan.
Status CheckMeans(const OpenedBundle& opened, const rollout::CpuPlan& plan) {
  const rollout::NeuronConfig& neuron = *kinds::BundleOf(opened.artifact.artifact)->config;
  const ParamTable& table = opened.tables.front();
  if (neuron.local_ranks != plan.tp)
    return Unsupported("the bundle is for {} of {} ranks; this engine runs all of them",
                       neuron.local_ranks, plan.tp);
  if (table.heads != plan.query_slots || table.kv_heads != plan.kv_slots)
    return Unsupported(
        "the plan has {} query and {} key heads on a rank, padding included; this engine has {} "
        "and {}, unpadded",
        plan.query_slots, plan.kv_slots, table.heads, table.kv_heads);
  if (plan.sequence_length > opened.config.max_positions)
    return Unsupported("sequence length {} is over the model's max_position_embeddings {}",
                       plan.sequence_length, opened.config.max_positions);
  return OkStatus();
}

}  // namespace

Result<OpenedBundle> OpenBundleForEngine(const EngineOptions& options) {
  NXDKIT_ASSIGN(artifact::Artifact artifact,
                kinds::OpenArtifact(options.bundle, &kinds::kRollout, {}));
  NXDKIT_TRY(CheckBlob(*kinds::BundleOf(artifact)).in(kinds::BundleOf(artifact)->folder));
  NXDKIT_ASSIGN(const rollout::CpuPlan plan, ReadPlan(*kinds::BundleOf(artifact)));
  NXDKIT_TRY(CheckOverride(options.neuron_override, plan).in(options.bundle));
  if (artifact.files.empty()) return NotFound("the bundle has no rank shards").in(options.bundle);
  const std::optional<Dtype> dtype = DtypeFromTorchName(plan.dtype);
  if (dtype != Dtype::kF32 && dtype != Dtype::kBF16)
    return Unsupported("torch_dtype {} is not supported by this engine: float32 and bfloat16 are",
                       plan.dtype)
        .in(options.bundle);
  OpenedBundle opened;
  NXDKIT_ASSIGN(opened.config, ParseDecoderConfig(artifact.config_text, artifact.config_path));
  for (int rank = 0; rank < static_cast<int>(plan.tp); ++rank) {
    NXDKIT_ASSIGN(ParamTable table,
                  MakeParamTable(opened.config.model, static_cast<int>(plan.tp), rank));
    opened.tables.push_back(std::move(table));
  }
  opened.facts = {.model_type = plan.model_type,
                  .tp = plan.tp,
                  .batch_size = plan.batch_size,
                  .seq_len = plan.sequence_length,
                  .vocab = opened.config.model.config.vocab,
                  .dtype = *dtype,
                  .version = kinds::BundleOf(artifact)->version};
  NXDKIT_ASSIGN(opened.artifact, kinds::Bind(std::move(artifact), {}));
  NXDKIT_TRY(CheckMeans(opened, plan).in(options.bundle));
  return opened;
}

}  // namespace nxdkit::trainer
