// PRIVATE to formats: what is written of a LoRA adapter.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::adapter {

inline constexpr char kPeftFile[] = "adapter_model.safetensors";

// The tensors of PEFT's file.
std::vector<TensorLayout> PeftTensors(const BoundArtifact& adapter);

// adapter_config.json of the adapter in PEFT's form; `is_peft`: it has its own target modules.
std::string PeftConfig(const BoundArtifact& adapter, bool is_peft);

// The dictionary under lora_config of NxD's shards, as JSON text. kUnsupported naming what NxD has
// no form for.
Result<std::string> NxdLoraConfig(const BoundArtifact& adapter, const nxd::Geometry& geometry);

}  // namespace nxdkit::adapter
