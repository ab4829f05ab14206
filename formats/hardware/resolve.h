// The instance that a user means: one of the table by its name, this machine, or the one that a
// file was captured on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/hardware/read_machine.h"

namespace nxdkit::hardware {

inline constexpr char kAuto[] = "auto";

// "auto", or the name of a file: one with a '/' in it, or that ends in ".json".
bool IsReadInstance(const std::string& name);

struct ResolvedInstance {
  Instance instance;
  std::optional<Machine> machine;  // that was read; nullopt: by its name in the table
  std::vector<std::string> notes;  // how it was told, and what is not known of it
};

// kUsage for a name that is not in the table, and for "auto" where there are no devices, listing
// what was asked; kNotFound and kCorrupt of a file; kUnsupported where what was read does not tell
// cores or memory.
Result<ResolvedInstance> ResolveInstance(const std::string& name, const MachineSources& sources);

// The same of a machine that was read for "auto".
Result<ResolvedInstance> ResolveMachine(Machine machine);

// This machine, where the kernel tells of devices; else nothing. Only the error of sources.poll.
// For those who did not ask for it: neuron-ls gets 5 seconds at most.
Result<std::optional<Machine>> MachineHere(MachineSources sources);

// A run that would use devices.
struct DeviceRun {
  const Instance* asked = nullptr;  // by its name; nullptr: none was
  int64_t cores = 0;                // that it wants; 0: not known
};
// Why it cannot go on this machine as it is meant: it is another instance, has fewer cores, another
// LNC than the instance that was asked for, or its devices are held. For warnings.
std::vector<std::string> Disagreements(const Machine& machine, const DeviceRun& run);

}  // namespace nxdkit::hardware
