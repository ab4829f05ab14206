#include "formats/ops/verify/fitness.h"

#include <fmt/core.h>

#include "formats/kinds/nxd/nxd_options.h"
#include "formats/kinds/open.h"
#include "formats/kinds/rollout/compiled_model.h"
#include "formats/kinds/rollout/read_rollout.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/ops/verify/blob.h"
#include "formats/rollout/cpu_plan.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

struct Judge {
  const rollout::Bundle& bundle;
  const BoundArtifact& weights;
  VerifyReport& report;
  const rollout::NeuronConfig& config = *bundle.config;

  Status Run() {
    CheckSettings();
    Append(CheckCpuPlan(bundle));
    NXDKIT_TRY(CheckModel());
    NXDKIT_TRY(CheckShards());
    if (RolloutGeometryOf(weights)) CheckCut();
    CheckDtype();
    return OkStatus();
  }

  void Add(Finding finding) { report.findings.push_back(std::move(finding)); }
  void Append(const std::vector<Finding>& findings) {
    report.findings.insert(report.findings.end(), findings.begin(), findings.end());
  }
  Finding OfConfig(std::string check, std::string message) const {
    return Finding(std::move(check), std::move(message))
        .in(JoinPath(bundle.folder, "neuron_config.json"));
  }

  void CheckSettings() {
    for (const std::string& setting : config.unsupported)
      Add(OfConfig("setting",
                   fmt::format("{}: shards for it have a layout that is not known here", setting)));
    if (config.local_ranks != config.tp)
      Add(OfConfig(
              "ranks",
              fmt::format("the bundle is for ranks {} to {} of {}, a part of the model",
                          config.start_rank, config.start_rank + config.local_ranks - 1, config.tp))
              .differs(std::to_string(config.local_ranks), std::to_string(config.tp)));
    if (bundle.blobs.empty() && !bundle.has_cpu_plan)
      Add(Finding("blob", "there is nothing to run: neither model.pt nor nxdkit-cpu-plan.json")
              .in(bundle.folder));
    if (report.findings.empty())
      report.checks.push_back(
          fmt::format("compiled for tp {}, batch size {}, sequence length {}, {}, q/k/v {}",
                      config.tp, config.batch_size, config.sequence_length, config.torch_dtype,
                      config.fused_qkv ? "fused" : "apart"));
  }

  Status CheckModel() {
    NXDKIT_ASSIGN(const ConfigText compiled, CompiledModel(bundle));
    if (compiled.text.empty()) {
      report.warnings.push_back(fmt::format(
          "{}: no config.json, so rope, norms and activation cannot be compared", bundle.folder));
      return OkStatus();
    }
    const ConfigText model{weights.artifact.config_text, weights.artifact.config_path};
    NXDKIT_ASSIGN(const std::vector<Finding> findings, CompareModels(model, compiled, config.tp));
    if (findings.empty())
      report.checks.push_back("the model's compiled-in settings are the same, heads: " +
                              HeadsText(weights.model->config, config.tp));
    Append(findings);
    return OkStatus();
  }

  Result<std::vector<OutputTensor>> RankOf(int rank) const {
    const auto dtype = DtypeFromTorchName(config.torch_dtype);
    std::vector<OutputTensor> tensors;
    NXDKIT_ASSIGN(const std::vector<TensorLayout> layouts,
                  rollout::RankTensors(*weights.model, config, rank));
    for (const TensorLayout& layout : layouts)
      tensors.push_back(
          {layout.name, layout.dtype.value_or(dtype.value_or(Dtype::kBF16)), layout.shape});
    return tensors;
  }

  Status CheckShards() {
    if (bundle.shards.empty()) {
      report.checks.push_back("the bundle has no shards of its own to compare shapes with");
      return OkStatus();
    }
    const size_t before = report.findings.size();
    for (size_t i = 0; i < bundle.shards.size(); ++i) {
      const int64_t rank = bundle.first_rank + static_cast<int64_t>(i);
      NXDKIT_ASSIGN(const std::vector<OutputTensor> model, RankOf(static_cast<int>(rank)));
      Append(CompareShard(bundle.shards[i], rank, model));
    }
    if (report.findings.size() == before)
      report.checks.push_back(fmt::format(
          "names, shapes and element types of {}{} are those that the model gives",
          bundle.shards.size() == 1 ? "" : "all ", Counted(bundle.shards.size(), "rank")));
    return OkStatus();
  }

  // Weights that are rank shards are loaded as they are.
  void CheckCut() {
    const rollout::Geometry& cut = *RolloutGeometryOf(weights);
    const rollout::Geometry wanted = config;
    const std::string path = BundleOf(weights.artifact)->weights_folder;
    if (cut.tp != wanted.tp)
      Add(Finding("tp",
                  fmt::format("the shards are cut for tp {}, the bundle was compiled for tp {}",
                              cut.tp, wanted.tp))
              .in(path)
              .differs(std::to_string(cut.tp), std::to_string(wanted.tp)));
    struct Row {
      const char* what;
      bool found, expected;
    };
    for (const Row& row :
         {Row{"fused_qkv", cut.fused_qkv, wanted.fused_qkv},
          Row{"vocab_parallel", cut.vocab_parallel, wanted.vocab_parallel},
          Row{"transposed Wqkv", cut.transposed_qkv, wanted.transposed_qkv},
          Row{"transposed o_proj", cut.transposed_output, wanted.transposed_output},
          Row{"transposed mlp", cut.transposed_mlp, wanted.transposed_mlp}})
      if (row.found != row.expected)
        Add(Finding("layout", fmt::format("{}: {} in the shards, the bundle was compiled for {}",
                                          row.what, row.found, row.expected))
                .in(path)
                .differs(fmt::format("{}", row.found), fmt::format("{}", row.expected)));
  }

  // Shards must have the type of the graph; other weights are rounded to it when they are cut.
  void CheckDtype() {
    const auto dtype = DtypeFromTorchName(config.torch_dtype);
    if (!dtype)
      return Add(OfConfig("dtype", fmt::format("torch_dtype \"{}\" is unknown", config.torch_dtype))
                     .differs(config.torch_dtype, ""));
    for (const StoredTensor& tensor : weights.bound.stored) {
      if (!Info(tensor.dtype).floating || tensor.dtype == *dtype) continue;
      const std::string message = fmt::format("{} is {}, the bundle was compiled for {}",
                                              tensor.name, Name(tensor.dtype), Name(*dtype));
      if (RolloutGeometryOf(weights))
        Add(Finding("dtype", message)
                .in(weights.artifact.path)
                .differs(std::string(Name(tensor.dtype)), std::string(Name(*dtype))));
      else
        report.warnings.push_back(message + "; the shards will hold rounded values");
      return;  // the first one reports it
    }
  }
};

}  // namespace

Result<VerifyReport> JudgeFitness(const FitnessRequest& request) {
  VerifyReport report;
  report.kind = &kRollout;
  NXDKIT_ASSIGN(const Artifact compiled, OpenArtifact(request.bundle, &kRollout, {}));
  const rollout::Bundle& bundle = *BundleOf(compiled);
  if (!bundle.config)
    return NotFound("no neuron_config.json: it is not known for what the bundle was compiled")
        .in(request.bundle);
  InputHints hints = request.hints;
  // Shapes are the same on both.
  AssumeHardware(hints);
  NXDKIT_ASSIGN(const BoundArtifact weights,
                OpenAndBind(request.weights, request.weights_kind, hints));
  if (!weights.model)
    return NotFound("the weights have no config.json with a known family")
        .in(request.weights)
        .hint("name one with --weights-config");
  report.warnings = compiled.warnings;
  report.AddSaid(weights.artifact);
  report.model_type = weights.model->config.model_type;
  report.tensors = weights.artifact.tensor_count();
  report.ranks = static_cast<uint64_t>(bundle.config->tp);
  for (const LogicalTensor& param : weights.params)
    report.parameters += static_cast<uint64_t>(*ElementCount(param.shape));
  NXDKIT_TRY((Judge{bundle, weights, report}.Run()));
  NXDKIT_TRY(CheckBlobs(bundle, request.poll, report));
  return report;
}

}  // namespace nxdkit::ops
