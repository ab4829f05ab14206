// The instances with Neuron devices, as far as the size of a model depends on them. Source: the
// architecture pages of the AWS Neuron SDK's documentation (neuron-hardware/*-arch), its NxD
// Inference API guide (tp_degree) and its NxD Training tutorials (workers of one node).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::hardware {

struct Instance {
  std::string_view name;
  std::string_view platform;  // "trn1" or "trn2", as compilers are told it: an inf2 is a trn1
  int64_t cores = 0;          // logical NeuronCores, as software sees them by default
  int64_t gib_per_core = 0;   // of device memory
  std::span<const int64_t> inference_tp;  // tensor parallel sizes that NxD Inference takes
  std::span<const int64_t> workers;       // of a training job on a part of one node, or all of it

  uint64_t bytes_per_core() const { return static_cast<uint64_t>(gib_per_core) << 30; }
};

// From the smallest to the largest.
std::span<const Instance> Instances();
// kUsage, with the nearest name and all of them.
Result<const Instance*> FindInstance(std::string_view name);

}  // namespace nxdkit::hardware
