#include "formats/ops/convert/fit.h"

#include <algorithm>
#include <map>
#include <string>

#include "formats/nxd/optimizer_set.h"
#include "formats/output/rollout_use.h"
#include "lib/base/errors.h"

namespace nxdkit::ops {
namespace {

// The main file of a rank: xser has a folder of that name for its tensors.
std::string MainFile(const std::string& path) {
  const size_t end = path.find(".pt");
  return end == std::string::npos ? path : path.substr(0, end);
}

// Of the rank that holds most: the embedding makes the first or the last pipeline rank the largest.
// An optimizer's states are counted by the rule of how they are kept in training.
uint64_t MostElements(const OutputPlan& output) {
  std::map<std::string, uint64_t> ranks;
  for (size_t t = 0; t < output.outputs.size(); ++t) {
    const std::string& path = output.layout.files[output.layout.tensors[t].file].path;
    if (nxd::IsOptimizerPath(path)) continue;
    ranks[MainFile(path)] +=
        static_cast<uint64_t>(ElementCount(output.outputs[t].shape).value_or(0));
  }
  uint64_t most = 0;
  for (const auto& [rank, elements] : ranks) most = std::max(most, elements);
  return most;
}

hardware::TrainingUse TrainingUseOf(const ConvertRequest& request, const Conversion& conversion) {
  const models::ModelConfig& model = conversion.source.model->config;
  hardware::TrainingUse use = request.training;
  use.tp = conversion.spec.nxd.tp;
  use.pp = conversion.spec.nxd.pp;
  use.rank_elements = MostElements(conversion.output);
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
  hardware::Fit fit;
  if (request.to == Kind::kRollout) {
    NXDKIT_ASSIGN(
        const hardware::RolloutUse use,
        RolloutUseOf(*conversion.source.model, conversion.spec.neuron, *conversion.spec.dtype));
    fit = hardware::FitRollout(*instance, use);
  } else {
    fit = hardware::FitTraining(*instance, TrainingUseOf(request, conversion));
  }
  constexpr hardware::Levers kLevers = {
      .parallel = "--tp or --pp", .micro_batch = "--seq", .cache = "--bs or --seq"};
  NXDKIT_TRY(hardware::CheckFit(fit, kLevers).in(request.output));
  return fit;
}

}  // namespace nxdkit::ops
