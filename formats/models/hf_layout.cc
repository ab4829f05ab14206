#include "formats/models/hf_layout.h"

#include "formats/models/rank_tensors.h"

namespace nxdkit::models {

std::vector<TensorLayout> HfTensors(const Model& model, bool aliases) {
  std::vector<TensorLayout> tensors;
  const auto add = [&](std::string name, uint32_t param) {
    tensors.push_back(WholeTensor(model, param, std::move(name)));
  };
  for (uint32_t i = 0; i < model.params.size(); ++i) add(model.params[i].name, i);
  if (!aliases) return tensors;
  for (const Alias& alias : model.config.family->aliases)
    if (const auto i = model.Find(alias.of); i && (model.config.tied || !alias.tied))
      add(alias.name, *i);
  return tensors;
}

}  // namespace nxdkit::models
