// The cores of a vLLM Neuron engine and their parts of a model, as its own loader makes them from a
// Hugging Face folder: a layout without files. Derived from the sources of the 0.24 line, not run:
// facts and limits in FORMAT.md.
#pragma once

#include <string_view>
#include <vector>

#include "formats/models/model.h"
#include "formats/vllm_neuron/geometry.h"
#include "lib/plan/layout.h"

namespace nxdkit::vllm_neuron {

inline constexpr std::string_view kView = "vllm_neuron";  // in the families' texts

// The parameters of one core in the order of the model, under the engine's names. Projections are
// stored transposed. Zeros: the last rows of the vocabulary, and key and value heads that do not
// exist for the loader of a model with experts. kUnsupported as in CheckKnown, and for sizes
// without a layout, such as those at which another model's loader fails.
Result<std::vector<TensorLayout>> CoreTensors(const models::Model& model, const Geometry& geometry,
                                              int core);

// Why an element type of the engine is not predicted; "" if it is: experts are first cast to
// bfloat16, whatever follows.
std::string DtypeFault(const models::ModelConfig& config, Dtype dtype);

}  // namespace nxdkit::vllm_neuron
