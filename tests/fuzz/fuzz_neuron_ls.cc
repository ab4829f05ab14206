// The output of neuron-ls: parsed, completed, and made an instance.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "formats/hardware/machine.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto listing = nxdkit::hardware::ParseNeuronLs(text);
  if (!listing.ok()) {
    if (listing.error().code() != nxdkit::Errc::kCorrupt) std::abort();
    return 0;
  }
  nxdkit::hardware::Machine machine = nxdkit::hardware::MachineOf(*listing, "neuron-ls");
  nxdkit::hardware::Complete(machine);
  if (machine.notes.size() > 32 || machine.cores() < 0) std::abort();
  const auto instance = nxdkit::hardware::InstanceOf(machine);
  if (instance.ok() && (instance->cores < 1 || instance->bytes_per_core() > instance->device_bytes))
    std::abort();
  return 0;
}
