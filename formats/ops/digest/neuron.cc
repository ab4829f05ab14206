#include "formats/ops/digest/neuron.h"

#include "formats/vllm/engine_layout.h"
#include "formats/vllm_neuron/rank_tensors.h"
#include "lib/base/errors.h"

namespace nxdkit::ops {
namespace {

Result<std::vector<TensorLayout>> TensorsOf(const models::Model& model,
                                            const vllm_neuron::Geometry& geometry, Dtype dtype,
                                            int core) {
  NXDKIT_TRY(vllm_neuron::CheckKnown(model));
  const std::string fault = vllm_neuron::DtypeFault(model.config, dtype);
  if (!fault.empty()) return Unsupported("{}", fault);
  if (core < 0 || core >= geometry.cores())
    return BadUsage("core {} of the engine, expected 0 to {}", core, geometry.cores() - 1);
  return vllm_neuron::CoreTensors(model, geometry, core);
}

}  // namespace

RankLayout LayoutOfNeuron(const vllm_neuron::Geometry& geometry, Dtype dtype) {
  return [geometry, dtype](const models::Model& model, int core) {
    return TensorsOf(model, geometry, dtype, core);
  };
}

Result<EngineDigests> DigestForNeuron(const NeuronRequest& request) {
  std::vector<std::string> faults;
  const auto layout = [&](const models::Model& model,
                          int core) -> Result<std::vector<TensorLayout>> {
    const Dtype dtype = request.dtype.value_or(vllm::EngineDtype(model.config));
    if (core == 0)
      for (const vllm_neuron::SizeFault& size :
           vllm_neuron::SizeFaults(model.config, request.geometry))
        faults.push_back(size.message);
    return TensorsOf(model, request.geometry, dtype, core);
  };
  NXDKIT_ASSIGN(EngineDigests found, DigestRanks(request, request.geometry.cores(), layout));
  found.warnings.insert(found.warnings.end(), faults.begin(), faults.end());
  return found;
}

Result<std::vector<EngineParam>> DigestForNeuron(const BoundArtifact& artifact,
                                                 const vllm_neuron::Geometry& geometry, Dtype dtype,
                                                 const RunOptions& run) {
  return DigestRanks(artifact, geometry.cores(), LayoutOfNeuron(geometry, dtype), dtype, run);
}

Status CheckForNeuron(const models::Model& model, const vllm_neuron::Geometry& geometry,
                      Dtype dtype) {
  NXDKIT_TRY(vllm_neuron::CheckCores(geometry));
  NXDKIT_TRY(TensorsOf(model, geometry, dtype, 0));
  return OkStatus();
}

}  // namespace nxdkit::ops
