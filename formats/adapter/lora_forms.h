// PRIVATE to formats: the parts of a LoRA adapter as an output.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::adapter {

inline constexpr char kPeftFile[] = "adapter_model.safetensors";

// The tensors of PEFT's file.
std::vector<TensorLayout> PeftTensors(const BoundArtifact& adapter);

// The adapter's adapter_config.json for PEFT; `is_peft`: it has target modules of its own.
std::string PeftConfig(const BoundArtifact& adapter, bool is_peft);

// The dictionary under lora_config in NxD's shards, as JSON text. kUnsupported naming a setting
// that NxD cannot represent.
Result<std::string> NxdLoraConfig(const BoundArtifact& adapter, const nxd::Geometry& geometry);

}  // namespace nxdkit::adapter
