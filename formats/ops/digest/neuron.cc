#include "formats/ops/digest/neuron.h"

#include "formats/vllm/engine_layout.h"
#include "formats/vllm_neuron/rank_tensors.h"
#include "lib/base/errors.h"

namespace nxdkit::ops {

Result<EngineDigests> DigestForNeuron(const NeuronRequest& request) {
  std::vector<std::string> faults;
  const auto layout = [&](const models::Model& model,
                          int core) -> Result<std::vector<TensorLayout>> {
    NXDKIT_TRY(vllm_neuron::CheckKnown(model));
    const Dtype dtype = request.dtype.value_or(vllm::EngineDtype(model.config));
    const std::string fault = vllm_neuron::DtypeFault(model.config, dtype);
    if (!fault.empty()) return Unsupported("{}", fault);
    if (core == 0)
      for (const vllm_neuron::SizeFault& size :
           vllm_neuron::SizeFaults(model.config, request.geometry))
        faults.push_back(size.message);
    return vllm_neuron::CoreTensors(model, request.geometry, core);
  };
  NXDKIT_ASSIGN(EngineDigests found, DigestRanks(request, request.geometry.cores(), layout));
  found.warnings.insert(found.warnings.end(), faults.begin(), faults.end());
  return found;
}

}  // namespace nxdkit::ops
