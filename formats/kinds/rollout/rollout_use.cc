#include "formats/kinds/rollout/rollout_use.h"

#include <algorithm>

namespace nxdkit::kinds {

Result<hardware::RolloutUse> RolloutUseOf(const models::Model& model,
                                          const rollout::NeuronConfig& neuron, Dtype dtype) {
  const models::ModelConfig& config = model.config;
  // Ranks are padded to the same sizes.
  NXDKIT_ASSIGN(const std::vector<TensorLayout> tensors, rollout::RankTensors(model, neuron, 0));
  uint64_t bytes = 0;
  for (const TensorLayout& tensor : tensors) {
    NXDKIT_ASSIGN(const uint64_t size, PackedBytes(tensor.dtype.value_or(dtype), tensor.shape));
    bytes += std::min(size, UINT64_MAX - bytes);
  }
  const models::RolloutHeads heads =
      models::RolloutPlacement(config.heads, config.kv_heads, neuron.tp);
  return hardware::RolloutUse{.tp = neuron.tp,
                              .weight_bytes = bytes,
                              .layers = config.layers,
                              .batch = neuron.batch_size,
                              .sequence = neuron.sequence_length,
                              .kv_heads_per_rank = (heads.padded_kv + neuron.tp - 1) / neuron.tp,
                              .head_dim = config.head_dim,
                              .element_bytes = ElementBytes(dtype)};
}

}  // namespace nxdkit::kinds
