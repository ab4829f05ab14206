// The chips that a vLLM Neuron engine runs on, as far as stored numbers depend on them.
#pragma once

#include <string_view>

#include "lib/tensor/dtype.h"

namespace nxdkit::vllm_neuron {

enum class Target { kTrn2, kTrn3 };

constexpr std::string_view TargetName(Target target) {
  return target == Target::kTrn2 ? "trn2" : "trn3";
}

// The largest E4M3 number. Files may have larger ones: on a chip with a smaller maximum, the loader
// multiplies FP8 weights by it over 448, and rounds them again.
constexpr int LargestE4M3(Target target) { return target == Target::kTrn2 ? 240 : 448; }
// The bits of that number; larger numbers have larger bits.
constexpr uint8_t LargestE4M3Bits(Target target) { return target == Target::kTrn2 ? 0x77 : 0x7e; }

}  // namespace nxdkit::vllm_neuron
