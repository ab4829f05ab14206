#include "formats/models/hf_layout.h"

namespace nxdkit::models {

std::vector<TensorLayout> HfTensors(const Model& model, bool tied_head) {
  std::vector<TensorLayout> tensors;
  const auto add = [&](std::string name, uint32_t param) {
    tensors.push_back({std::move(name), 0, model.params[param].shape, std::nullopt, {}, {}});
    AddWhole(tensors.back(), param, model.params[param].shape);
  };
  for (uint32_t i = 0; i < model.params.size(); ++i) add(model.params[i].name, i);
  if (tied_head && model.config.tied)
    for (uint32_t i = 0; i < model.params.size(); ++i)
      if (model.params[i].role == Role::kEmbedding) add("lm_head.weight", i);
  return tensors;
}

}  // namespace nxdkit::models
