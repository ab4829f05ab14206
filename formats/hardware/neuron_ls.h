// The output of `neuron-ls --json-output`, read from text. Its shape differs by release; source:
// captures of trn1.2xlarge and trn2.48xlarge that people published. None was made by us.
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
  std::string command;  // as it is listed, cut to ShortName's length; "" when it is not told
};

// nullopt: not told, or told in a way that is not understood.
struct NeuronDevice {
  std::optional<int64_t> number{};
  std::optional<int64_t> cores{};          // logical ones
  std::optional<int64_t> lnc{};            // physical cores of a logical one; older releases: none
  std::optional<uint64_t> memory_bytes{};  // of the device, which its cores share
  std::vector<DeviceProcess> processes{};
};

struct NeuronLs {
  std::string instance_type;  // "trn1.32xlarge"; "": an older release
  std::vector<NeuronDevice> devices;
  std::vector<std::string> notes;  // what was not understood, by key
};

// kCorrupt for what is no JSON, or no array of objects. A key that is missing, null or of another
// type or size than it can have leaves its value unknown, with a note; keys that are not known are
// passed over.
Result<NeuronLs> ParseNeuronLs(std::string_view text);

}  // namespace nxdkit::hardware
