// PRIVATE: what FSDP1 flattens into one parameter.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "formats/fsdp/open.h"

namespace nxdkit::fsdp {

// Of "model.layers.3.mlp.up_proj.weight": "model.layers." and 3; "" of what is in no layer.
std::pair<std::string, int64_t> LayerNumber(const std::string& name);

struct Unit {
  std::vector<size_t> tensors;  // in Facts::tensors, one after the other
  int64_t elements = 0;         // of all of them
};

// Each layer is a unit, and all that is in no layer is the first one. `candidates`: those that may
// be trained. A layer is the first part of a name that is a number, with all before it.
std::vector<Unit> LayerUnits(const std::vector<ModelTensor>& tensors,
                             const std::vector<size_t>& candidates);
// Each is a unit by itself.
std::vector<Unit> SingleUnits(const std::vector<ModelTensor>& tensors,
                              const std::vector<size_t>& candidates);

}  // namespace nxdkit::fsdp
