// The output of `neuron-ls --json-output`, read from text. Its form differs by release; source:
// published captures of trn1.2xlarge and trn2.48xlarge. None was made by us.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::hardware {

inline constexpr size_t kMaxNeuronLsBytes = 4 << 20;  // 16 devices have 10 kB

// A process that holds a device.
struct DeviceProcess {
  int64_t pid = 0;
  std::string command;  // as listed, cut to ShortName's length; "" if not reported
};

// nullopt: not reported, or not understood.
struct NeuronDevice {
  std::optional<int64_t> number{};
  std::optional<int64_t> cores{};          // logical cores
  std::optional<int64_t> lnc{};            // physical cores per logical core; older releases: none
  std::optional<uint64_t> memory_bytes{};  // of the device, shared by its cores
  std::vector<DeviceProcess> processes{};
};

struct NeuronLs {
  std::string instance_type;  // "trn1.32xlarge"; "" in older releases
  std::vector<NeuronDevice> devices;
  std::vector<std::string> notes;  // what was not understood, by key
};

// kCorrupt for text that is not JSON, or not an array of objects. A key that is missing, null or of
// an unexpected type or size leaves its value unknown, with a note; unknown keys are ignored.
Result<NeuronLs> ParseNeuronLs(std::string_view text);

}  // namespace nxdkit::hardware
