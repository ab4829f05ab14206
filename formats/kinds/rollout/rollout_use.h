// What a rollout bundle takes of each core: one count for whoever makes a bundle and whoever runs
// it.
#pragma once

#include "formats/hardware/fit.h"
#include "formats/models/model.h"
#include "formats/rollout/neuron_config.h"
#include "lib/base/error.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::kinds {

// The use that `model` makes of a bundle as `neuron` says: ranks, batch size, sequence length, and
// how the shards are laid out. `dtype`: of the weights and the cache. kUnsupported as
// rollout::RankTensors.
Result<hardware::RolloutUse> RolloutUseOf(const models::Model& model,
                                          const rollout::NeuronConfig& neuron, Dtype dtype);

}  // namespace nxdkit::kinds
