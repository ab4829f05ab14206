// The Hugging Face layout: every parameter whole, under its own name.
#pragma once

#include <vector>

#include "formats/models/model.h"
#include "lib/layout.h"

namespace nxdkit::models {

// One tensor per parameter, in the model's order. `tied_head`: a tied model also stores
// lm_head.weight, as a replica of the embedding.
std::vector<TensorLayout> HfTensors(const Model& model, bool tied_head);

}  // namespace nxdkit::models
