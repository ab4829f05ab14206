// PRIVATE to formats/ops/verify: a model by one of its layers, where the others are like it. Cores
// of a large model are laid out a hundred times faster so.
#pragma once

#include <string>
#include <vector>

#include "formats/models/model.h"

namespace nxdkit::ops {

struct OneLayer {
  models::Model model;       // without the parameters of layers after the first
  std::vector<uint32_t> of;  // of each parameter of the whole model, the one that stands for it
  int64_t layers = 1;        // that each of the model's stands for

  // How many tensors of the whole model one of this name stands for.
  int64_t Times(std::string_view tensor) const { return models::LayerOf(tensor) < 0 ? 1 : layers; }
};

// The whole model where its layers are not alike: another shape, role or name.
OneLayer FirstOfLayers(const models::Model& whole);

// A name of the first layer, in another.
std::string InLayer(const std::string& name, int64_t layer);

}  // namespace nxdkit::ops
