#include "formats/kinds/builder.h"
#include "formats/kinds/rollout/compiled_model.h"
#include "formats/kinds/rollout/decide_rollout.h"
#include "formats/kinds/rollout/rollout_use.h"
#include "formats/rollout/cpu_plan.h"
#include "formats/rollout/rollout_layout.h"
#include "lib/base/errors.h"
#include "lib/system/paths.h"

namespace nxdkit::kinds {
namespace {

Status Refuse(const std::vector<Finding>& findings) {
  if (findings.empty()) return OkStatus();
  const Finding& first = findings.front();
  return Error(Errc::kUnsupported, first.message)
      .in(first.file)
      .on(first.tensor)
      .hint("the compiled blob does not fit this model; compile one for it");
}

// The bundle's own shards, if it has some, and its model's settings show what its blob expects.
Status CheckAgainstBundle(const OutputBuilder& builder, const RolloutOutput& output) {
  const rollout::Bundle& bundle = *output.bundle;
  const OutputPlan& plan = builder.plan;
  const Artifact& source = builder.source().artifact;
  for (size_t i = 0; i < bundle.shards.size(); ++i) {
    const int64_t rank = bundle.first_rank + static_cast<int64_t>(i);
    std::vector<OutputTensor> model;
    for (size_t t = 0; t < plan.outputs.size(); ++t)
      if (plan.layout.files[plan.layout.tensors[t].file].tp_rank == rank)
        model.push_back(plan.outputs[t]);
    NXDKIT_TRY(Refuse(CompareShard(bundle.shards[i], rank, model)));
  }
  NXDKIT_ASSIGN(const ConfigText compiled, CompiledModel(bundle));
  NXDKIT_ASSIGN(
      const std::vector<Finding> findings,
      CompareModels({source.config_text, source.config_path}, compiled, output.neuron.tp));
  return Refuse(findings);
}

}  // namespace

const RolloutOutput* AsRollout(const Output& output) {
  return dynamic_cast<const RolloutOutput*>(&output);
}

Status RolloutOutput::Plan(OutputBuilder& builder) const {
  const std::string folder = rollout::WeightsFolder(neuron.flavor);
  for (int rank = 0; rank < neuron.tp; ++rank) {
    const std::string name = rollout::ShardFileName(rank);
    NXDKIT_ASSIGN(std::vector<TensorLayout> tensors,
                  rollout::RankTensors(*builder.source().model, neuron, rank));
    if (rank == 0) {
      uint64_t bytes = 0;
      for (const TensorLayout& tensor : tensors) bytes += LeastPlanBytes(tensor);
      bytes *= static_cast<uint64_t>(neuron.tp);
      NXDKIT_TRY(builder.CheckPlanBytes(bytes, neuron.tp));
    }
    NXDKIT_TRY(builder.AddSafetensors(only_weights ? name : JoinPath(folder, name), rank,
                                      std::move(tensors), {}));
  }
  if (only_weights) return CheckAgainstBundle(builder, *this);
  builder.plan.first_slot = folder;
  builder.plan.texts.push_back({"neuron_config.json", neuron_text});
  if (!cpu_plan_text.empty())
    builder.plan.texts.push_back({std::string(rollout::kCpuPlanFile), cpu_plan_text});
  NXDKIT_TRY(builder.CarrySideFiles());
  if (!bundle) return OkStatus();
  for (const std::string& blob : bundle->blobs)
    builder.plan.copies.push_back({blob, JoinPath(bundle->folder, blob)});
  return CheckAgainstBundle(builder, *this);
}

Result<std::optional<hardware::Fit>> RolloutOutput::FitOn(const BoundArtifact& source,
                                                          const FitQuestion& question) const {
  if (source.lora || !source.model) return std::optional<hardware::Fit>();
  NXDKIT_ASSIGN(const hardware::RolloutUse use, RolloutUseOf(*source.model, neuron, *dtype));
  return std::optional(hardware::FitRollout(question.instance, use));
}

}  // namespace nxdkit::kinds
