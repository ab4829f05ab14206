// PRIVATE: the units that FSDP1 flattens into one parameter each.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "formats/fsdp/open.h"

namespace nxdkit::fsdp {

// For "model.layers.3.mlp.up_proj.weight": "model.layers." and 3; "" for a name outside layers.
std::pair<std::string, int64_t> LayerNumber(const std::string& name);

struct Unit {
  std::vector<size_t> tensors;  // in Facts::tensors, one after another
  int64_t elements = 0;         // of all of them
};

// Each layer is a unit, and everything outside the layers is the first one. `candidates`: the
// tensors that may be trained. A layer is the first number among the parts of a name, with
// everything before it.
std::vector<Unit> LayerUnits(const std::vector<ModelTensor>& tensors,
                             const std::vector<size_t>& candidates);
// Each candidate as a unit by itself.
std::vector<Unit> SingleUnits(const std::vector<ModelTensor>& tensors,
                              const std::vector<size_t>& candidates);

}  // namespace nxdkit::fsdp
