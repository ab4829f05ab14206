#include <algorithm>
#include <map>

#include "formats/kinds/builder.h"
#include "formats/kinds/nxd/decide_nxd.h"
#include "formats/nxd/optimizer_set.h"

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

}  // namespace

Result<std::optional<hardware::Fit>> NxdOutput::FitOn(const BoundArtifact& source,
                                                      const FitQuestion& question) const {
  if (source.lora || !source.model) return std::optional<hardware::Fit>();
  const models::ModelConfig& model = source.model->config;
  hardware::TrainingUse use = question.training;
  use.tp = geometry.tp;
  use.pp = geometry.pp;
  use.rank_elements = MostElements(question.plan);
  use.hidden = model.hidden;
  use.layers = model.layers;
  use.vocab = model.vocab;
  return std::optional(hardware::FitTraining(question.instance, use));
}

}  // namespace nxdkit::ops
