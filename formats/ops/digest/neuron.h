// The digests of what the cores of a vLLM Neuron engine hold after loading, by its layout
// (formats/vllm_neuron): derived from sources, not run, and answered by no engine.
#pragma once

#include "formats/ops/digest/engine.h"
#include "formats/vllm_neuron/geometry.h"

namespace nxdkit::ops {

struct NeuronRequest : EngineSource {
  vllm_neuron::Geometry geometry;
};

// EngineParam::rank is the number of the core. Sizes that break a rule and have a layout all the
// same are warnings. kUnsupported as vllm_neuron::CoreTensors, and for an
// element type in which experts are not predicted.
Result<EngineDigests> DigestForNeuron(const NeuronRequest& request);

}  // namespace nxdkit::ops
