// This machine's Neuron devices, as far as the system tells of them: by neuron-ls, where that is
// installed and works, else by the kernel. Nothing of the vendor's Python is used.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "formats/hardware/machine.h"

namespace nxdkit::hardware {

// A folder in the place of "/", for tests and for what was copied from another machine.
inline constexpr char kRootVariable[] = "NXDKIT_MACHINE_ROOT";

struct MachineSources {
  std::string root{};                      // in the place of "/" for all that is not in PATH
  std::chrono::milliseconds most{20'000};  // of neuron-ls, which asks the driver
  std::function<Status()> poll{};
};
MachineSources SourcesOfProcess(const std::function<Status()>& poll);  // kRootVariable

// Asks neuron-ls of PATH, then that of /opt/aws/neuron/bin, then the kernel: the name of the
// machine (dmi), /dev/neuron*, /proc/devices, sysfs. The first that tells of devices is taken; what
// the others said is in Machine::asked. Where nothing tells of any, Machine::has_devices is false.
// Only the error of `poll`.
Result<Machine> ReadMachine(const MachineSources& sources);

// Whether the kernel tells of an instance with Neuron devices, or of one: cheap, and no program is
// run.
bool MayHaveDevices(const std::string& root);

// The machine of a file with what `neuron-ls --json-output` printed, or of a pipe whose writer
// ends within 20 seconds. kNotFound, kCorrupt with the file, kIo of such a wait, and the error of
// `poll`.
Result<Machine> MachineOfCapture(const std::string& path, const std::function<Status()>& poll = {});

}  // namespace nxdkit::hardware
