#include "formats/ops/convert/fit.h"

#include <algorithm>
#include <map>
#include <string>

#include "formats/nxd/optimizer_set.h"
#include "lib/base/errors.h"

namespace nxdkit::ops {
namespace {

struct Share {
  uint64_t bytes = 0;
  uint64_t elements = 0;
};

// The main file of a rank: xser has a folder of that name for its tensors.
std::string MainFile(const std::string& path) {
  const size_t end = path.find(".pt");
  return end == std::string::npos ? path : path.substr(0, end);
}

// Of the rank that holds most: the embedding makes the first or the last pipeline rank the largest.
// An optimizer's states are counted by the rule of how they are kept in training.
Share LargestRank(const OutputPlan& output) {
  std::map<std::string, Share> ranks;
  for (size_t t = 0; t < output.outputs.size(); ++t) {
    const std::string& path = output.layout.files[output.layout.tensors[t].file].path;
    if (nxd::IsOptimizerPath(path)) continue;
    Share& share = ranks[MainFile(path)];
    const OutputTensor& tensor = output.outputs[t];
    share.bytes += PackedBytes(tensor.dtype, tensor.shape).ok()
                       ? *PackedBytes(tensor.dtype, tensor.shape)
                       : 0;  // checked when it was planned
    share.elements += static_cast<uint64_t>(ElementCount(tensor.shape).value_or(0));
  }
  Share largest;
  for (const auto& [rank, share] : ranks)
    largest = {std::max(largest.bytes, share.bytes), std::max(largest.elements, share.elements)};
  return largest;
}

hardware::RolloutUse RolloutUseOf(const Conversion& conversion) {
  const models::ModelConfig& model = conversion.source.model->config;
  const rollout::NeuronConfig& neuron = conversion.spec.neuron;
  const models::RolloutHeads heads =
      models::RolloutPlacement(model.heads, model.kv_heads, neuron.tp);
  return {.tp = neuron.tp,
          .weight_bytes = LargestRank(conversion.output).bytes,
          .layers = model.layers,
          .batch = neuron.batch_size,
          .sequence = neuron.sequence_length,
          .kv_heads_per_rank = (heads.padded_kv + neuron.tp - 1) / neuron.tp,
          .head_dim = model.head_dim,
          .element_bytes = ElementBytes(*conversion.spec.dtype)};
}

hardware::TrainingUse TrainingUseOf(const ConvertRequest& request, const Conversion& conversion) {
  const models::ModelConfig& model = conversion.source.model->config;
  hardware::TrainingUse use = request.training;
  use.tp = conversion.spec.nxd.tp;
  use.pp = conversion.spec.nxd.pp;
  use.rank_elements = LargestRank(conversion.output).elements;
  use.hidden = model.hidden;
  use.layers = model.layers;
  use.vocab = model.vocab;
  return use;
}

}  // namespace

Result<hardware::Fit> FitOf(const ConvertRequest& request, const Conversion& conversion) {
  NXDKIT_ASSIGN(const hardware::Instance* const instance,
                hardware::FindInstance(*request.instance));
  const bool made_for_one = request.to == Kind::kNxd || request.to == Kind::kRollout;
  if (!made_for_one || conversion.source.lora || !conversion.source.model)
    return BadUsage("--instance: this output is not laid out for an instance");
  hardware::Fit fit = request.to == Kind::kRollout
                          ? hardware::FitRollout(*instance, RolloutUseOf(conversion))
                          : hardware::FitTraining(*instance, TrainingUseOf(request, conversion));
  constexpr hardware::Levers kLevers = {
      .parallel = "--tp or --pp", .micro_batch = "--seq", .cache = "--bs or --seq"};
  NXDKIT_TRY(hardware::CheckFit(fit, kLevers).in(request.output));
  return fit;
}

}  // namespace nxdkit::ops
