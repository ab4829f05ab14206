// The cores of a vLLM Neuron engine and the parts of a model that they hold, as its own loader
// makes them of a Hugging Face folder: a layout without files. Derived from the sources of the 0.24
// line, not run: facts and limits in FORMAT.md beside this file.
#pragma once

#include <string_view>
#include <vector>

#include "formats/models/model.h"
#include "formats/vllm_neuron/geometry.h"
#include "lib/plan/layout.h"

namespace nxdkit::vllm_neuron {

inline constexpr std::string_view kView = "vllm_neuron";  // in the texts of families

// The parameters of one core in the order of the model, under the engine's names. Projections are
// stored transposed. Zeros: the last rows of the vocabulary, and key and value heads that the
// loader of a model with experts has none for. kUnsupported as CheckKnown, and for sizes that have
// no layout, such as those that the loader of another model ends on.
Result<std::vector<TensorLayout>> CoreTensors(const models::Model& model, const Geometry& geometry,
                                              int core);

// The reason why an element type of the engine is not predicted; "" where it is: experts are cast
// to bfloat16 first, whatever follows.
std::string DtypeFault(const models::ModelConfig& config, Dtype dtype);

}  // namespace nxdkit::vllm_neuron
