// PRIVATE to formats: the names of tensors in PEFT's file of an adapter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::kinds {

enum class LoraPart : uint8_t {
  kWhole,  // a parameter of the base
  kA,
  kB,
  kMagnitude,  // of DoRA
  kTokens,     // single rows of an embedding or a head
  kOriginal,   // the base's own, next to the trained one
};

struct LoraName {
  LoraPart part = LoraPart::kWhole;
  bool embedding = false;  // A and B of an embedding, which are transposed
  bool beside = false;     // a whole parameter stored next to its A and B
  // The base's parameter as the trained model named it: "model.layers.0.self_attn.q_proj.weight".
  std::string target;
  std::string adapter;  // "default", if the name contains the adapter's; else ""
};

// Reads both "base_model.model.model.norm.weight" and "...q_proj.lora_A.default.weight"; also
// without "base_model.model.". kUnsupported for an unknown part.
Result<LoraName> LoraNameOf(std::string_view stored);

}  // namespace nxdkit::kinds
