// This machine's Neuron devices, as far as the system reports them: from neuron-ls, where it is
// installed and works, otherwise from the kernel. The vendor's Python is not used.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "formats/hardware/machine.h"

namespace nxdkit::hardware {

// A folder that replaces "/", for tests and for files copied from another machine.
inline constexpr char kRootVariable[] = "NXDKIT_MACHINE_ROOT";

struct MachineSources {
  std::string root{};                      // replaces "/" for everything except PATH
  std::chrono::milliseconds most{20'000};  // for neuron-ls, which queries the driver
  std::function<Status()> poll{};
};
MachineSources SourcesOfProcess(const std::function<Status()>& poll);  // kRootVariable

// Asks neuron-ls of PATH, then that of /opt/aws/neuron/bin, then the kernel: the name of the
// machine (dmi), /dev/neuron*, /proc/devices, sysfs. The first source that reports devices is used;
// the answers of the others are in Machine::asked. If none reports any, Machine::has_devices is
// false. The only error is `poll`'s.
Result<Machine> ReadMachine(const MachineSources& sources);

// Whether the kernel reports Neuron devices, or an instance that has them: cheap, and runs no
// program.
bool MayHaveDevices(const std::string& root);

// The machine of a file with the output of `neuron-ls --json-output`, or of a pipe whose writer
// ends within 20 seconds. kNotFound, kCorrupt with the file, kIo when the wait is too long, and the
// error of `poll`.
Result<Machine> MachineOfCapture(const std::string& path, const std::function<Status()>& poll = {});

}  // namespace nxdkit::hardware
