// PRIVATE to formats/ops/verify: a model by one of its layers, if the others are like it. This lays
// out the cores of a large model a hundred times faster.
#pragma once

#include <string>
#include <vector>

#include "formats/models/model.h"

namespace nxdkit::ops {

struct OneLayer {
  models::Model model;       // without the parameters of layers after the first
  std::vector<uint32_t> of;  // for each parameter of the whole model, the one that represents it
  int64_t layers = 1;        // that each of the model's represents

  // The number of tensors of the whole model that one of this name represents.
  int64_t Times(std::string_view tensor) const { return models::LayerOf(tensor) < 0 ? 1 : layers; }
};

// The whole model if its layers are not alike: another shape, role or name.
OneLayer FirstOfLayers(const models::Model& whole);

// A name of the first layer, in another layer.
std::string InLayer(const std::string& name, int64_t layer);

}  // namespace nxdkit::ops
