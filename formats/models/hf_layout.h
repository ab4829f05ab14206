// The Hugging Face layout: every parameter whole, under its own name.
#pragma once

#include <vector>

#include "formats/models/model.h"
#include "lib/plan/layout.h"

namespace nxdkit::models {

// One tensor per parameter, in the model's order. `aliases`: those that the family has too, such as
// the lm_head.weight of a tied model, as replicas.
std::vector<TensorLayout> HfTensors(const Model& model, bool aliases);

}  // namespace nxdkit::models
