// The instance that a user means: a row of the table by its name, this machine, or the machine on
// which a file was captured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/hardware/read_machine.h"

namespace nxdkit::hardware {

inline constexpr char kAuto[] = "auto";

// True for "auto" and for a file name: one that contains '/', or ends in ".json".
bool IsReadInstance(const std::string& name);

struct ResolvedInstance {
  Instance instance;
  std::optional<Machine> machine;  // nullopt: by name, from the table
  std::vector<std::string> notes;  // how it was identified, and what is unknown
};

// kUsage for a name that is not in the table, and for "auto" without devices, listing the sources
// asked; kNotFound and kCorrupt for a file; kUnsupported where the sources do not report cores or
// memory.
Result<ResolvedInstance> ResolveInstance(const std::string& name, const MachineSources& sources);

// ResolveInstance for a machine that was read for "auto".
Result<ResolvedInstance> ResolveMachine(Machine machine);

// This machine, if the kernel reports devices. The only error is that of sources.poll. For callers
// whose user did not ask: neuron-ls gets 5 seconds at most.
Result<std::optional<Machine>> MachineHere(MachineSources sources);

// A run that would use devices.
struct DeviceRun {
  const Instance* asked = nullptr;  // by its name; nullptr: no name given
  int64_t cores = 0;                // that it needs; 0: not known
};
// Why it cannot run on this machine as intended: another instance, fewer cores, another LNC than
// that of the requested instance, or devices in use. For warnings.
std::vector<std::string> Disagreements(const Machine& machine, const DeviceRun& run);

}  // namespace nxdkit::hardware
