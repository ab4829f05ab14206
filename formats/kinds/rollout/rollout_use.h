// The memory that a rollout bundle takes on each core: counted in one place for making a bundle and
// for running it.
#pragma once

#include "formats/hardware/fit.h"
#include "formats/models/model.h"
#include "formats/rollout/neuron_config.h"
#include "lib/base/error.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::kinds {

// The use of a bundle for `model` with the settings `neuron`: ranks, batch size, sequence length,
// and the layout of the shards. `dtype`: of the weights and the cache. kUnsupported as
// rollout::RankTensors.
Result<hardware::RolloutUse> RolloutUseOf(const models::Model& model,
                                          const rollout::NeuronConfig& neuron, Dtype dtype);

}  // namespace nxdkit::kinds
