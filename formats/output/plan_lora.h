// Private: what is written of a LoRA adapter.
#pragma once

#include <string>
#include <vector>

#include "formats/output/decide_output.h"

namespace nxdkit::ops {

inline constexpr char kPeftFile[] = "adapter_model.safetensors";

// The tensors of PEFT's file.
std::vector<TensorLayout> PeftTensors(const BoundArtifact& adapter);

// adapter_config.json of the adapter in PEFT's form.
std::string PeftConfig(const BoundArtifact& adapter);

// The dictionary under lora_config of NxD's shards, as JSON text. kUnsupported naming what NxD has
// no form for.
Result<std::string> NxdLoraConfig(const BoundArtifact& adapter, const nxd::Geometry& geometry);

// kUnsupported for an output that adapters have no form in; sets what follows from the source being
// one.
Status DecideLora(const BoundArtifact& adapter, const OutputOptions& options, OutputSpec& spec);

}  // namespace nxdkit::ops
