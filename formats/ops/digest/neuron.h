// The digests of the tensors on the cores of a vLLM Neuron engine after loading, by its layout
// (formats/vllm_neuron): derived from sources, not run. An engine reports them only with the worker
// extension of trainer/configs/engines.
#pragma once

#include "formats/ops/digest/engine.h"
#include "formats/vllm_neuron/geometry.h"

namespace nxdkit::ops {

struct NeuronRequest : EngineSource {
  vllm_neuron::Geometry geometry;
};

// kUsage for a core that does not exist, kUnsupported as DigestForNeuron.
RankLayout LayoutOfNeuron(const vllm_neuron::Geometry& geometry, Dtype dtype);

// EngineParam::rank is the number of the core. Sizes that break a rule and still have a layout are
// warnings. kUnsupported as vllm_neuron::CoreTensors, and for an element type in which experts are
// not predicted.
Result<EngineDigests> DigestForNeuron(const NeuronRequest& request);

// The same for an open artifact, without those warnings.
Result<std::vector<EngineParam>> DigestForNeuron(const BoundArtifact& artifact,
                                                 const vllm_neuron::Geometry& geometry, Dtype dtype,
                                                 const RunOptions& run);

// The errors of DigestForNeuron, without reading weights.
Status CheckForNeuron(const models::Model& model, const vllm_neuron::Geometry& geometry,
                      Dtype dtype);

}  // namespace nxdkit::ops
