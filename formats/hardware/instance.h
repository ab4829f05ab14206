// The instances with Neuron devices, as far as the size of a model depends on them. Source: the
// architecture pages of the AWS Neuron SDK's documentation (neuron-hardware/*-arch), its NxD
// Inference API guide (tp_degree) and its NxD Training tutorials (workers of one node).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::hardware {

// A row of the table, or a machine as it was read (formats/hardware/machine.h).
struct Instance {
  std::string name;
  std::string platform;       // "trn1" or "trn2", as compilers name it: an inf2 is a trn1
  int64_t devices = 0;        // chips
  int64_t cores = 0;          // logical NeuronCores in total, as software sees them by default
  uint64_t device_bytes = 0;  // of memory, shared by a device's cores
  std::span<const int64_t> inference_tp;  // tensor parallel sizes that NxD Inference accepts
  std::span<const int64_t> workers;       // for a training job on a part of one node, or all of it
  // Whether these two are known. They are not for a machine outside the table, or with cores
  // divided in another way than the default: any size up to its cores is accepted.
  bool sizes_known = true;

  int64_t cores_per_device() const { return devices > 0 ? cores / devices : 0; }
  uint64_t bytes_per_core() const;
};

// In ascending order of size.
std::span<const Instance> Instances();
// kUsage, with the nearest name and the list of all.
Result<const Instance*> FindInstance(std::string_view name);

}  // namespace nxdkit::hardware
