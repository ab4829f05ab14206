// How far each layer of a model has moved: the norm of its update against that of its weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/ops/diff/squares.h"

namespace nxdkit::ops {

// One parameter that both models have.
struct MovedParam {
  std::string name;
  uint64_t position = 0;  // in the order of the model
  uint64_t elements = 0;
  uint64_t changed = 0;
  Squares squares;
  uint64_t infinite = 0;  // pairs with a NaN or an infinite error
  double max_abs = 0;     // of the others
};

// The place of a parameter in its model, by its name.
struct Home {
  std::string layer;  // "model.layers.3"; outside the layers the module, "lm_head"
  // The rest of the name, with "*" for numbers: "mlp.experts.*.down_proj.weight"; "" if none.
  std::string module;
  std::vector<std::string> numbers;  // those numbers, in their order
};
// A layer is the number that is the first part of a name to be one: "model.layers.3.mlp...". Any
// other parameter belongs to the module of its name less its last part.
Home HomeOf(std::string_view name);

// The parameters of a layer, or of a module outside the layers.
struct LayerMove {
  std::string name;              // "model.layers.3", "model.embed_tokens"
  std::optional<int64_t> layer;  // the 3
  uint64_t parameters = 0;
  uint64_t elements = 0;
  uint64_t changed = 0;
  Squares squares;

  // "model.layers" of a layer; "" of a module outside the layers. A view into `name`.
  std::string_view stack() const;
  double norm_a() const;
  double norm_update() const;
  // ||B - A|| / ||A||; 0 where nothing moved, nullopt where the weights of A are zeros.
  std::optional<double> relative() const;
  void Add(const LayerMove& next);  // all but the name and the number
};

// The parameters of a layer that have one module name: one, or those of all its experts.
struct ModuleMove {
  std::string layer;   // as in LayerMove
  std::string module;  // as in Home
  uint64_t infinite = 0;
  double max_abs = 0;
  LayerMove sum;
};

// In the order of the model, a stack of layers by number; sums are in the order of positions.
std::vector<LayerMove> MovesOf(std::vector<MovedParam> params);

// By layer and module, each in the order of the first parameter that belongs to it.
std::vector<ModuleMove> ModulesOf(std::vector<MovedParam> params);

}  // namespace nxdkit::ops
