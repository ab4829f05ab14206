// The facts of a machine with Neuron devices: what was read, and from where. Nothing here queries
// the system: read_machine.h does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/hardware/given_cores.h"
#include "formats/hardware/instance.h"
#include "formats/hardware/neuron_ls.h"

namespace nxdkit::hardware {

// A fact and its source: "neuron-ls", "dmi", "/dev", "sysfs", "the table of instances", "a guess".
// Unknown: no value.
template <typename T>
struct Told {
  std::optional<T> value{};
  std::string by{};

  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
};

// A process that holds devices.
struct Holder : DeviceProcess {
  std::vector<int64_t> devices;
};

struct Machine {
  Told<std::string> instance;      // its type, "trn1.32xlarge"
  std::string guess_basis;         // the basis of a guessed type
  Told<int64_t> devices;           // visible to this process: a container has some of them
  Told<int64_t> cores_per_device;  // logical ones
  Told<int64_t> lnc;               // physical cores per logical core, on trn2 and later
  Told<uint64_t> device_bytes;     // of memory
  std::vector<Holder> holders;     // as far as the source reports them
  bool tells_holders = false;      // whether it does
  GivenCores given;                // from this process's environment
  std::vector<std::string> asked;  // every source, and its answer
  std::vector<std::string> notes;  // what was not understood, or is inconsistent

  bool has_devices() const { return devices && *devices > 0; }
  int64_t cores() const;        // in total; 0: not known
  uint64_t core_bytes() const;  // memory; 0: not known
};

// The facts of a listing, each of whose devices is one of the machine's.
Machine MachineOf(const NeuronLs& listing, const std::string& by);

// Derives further facts: the numbers of an instance from its name in the table, and a guess of the
// name from devices, cores and memory. Adds notes where they contradict each other.
void Complete(Machine& machine);

// Whether the machine may be this instance: its name is, or, if the name is a guess, the devices,
// cores and memory behind the guess are those of the row.
bool MayBe(const Machine& machine, const Instance& row);

// Why some of the cores that the environment gives do not exist; "" if all do, or nothing is known:
// "NEURON_RT_VISIBLE_CORES=0-99 names core 99, and the cores here are 0 to 31".
std::string LackingCores(const Machine& machine);

// "trn1.32xlarge", "a machine with 16 Neuron devices": the name for messages.
std::string MachineName(const Machine& machine);
// "trn1.32xlarge (neuron-ls): 16 devices, 32 cores, 16.00 GiB a core"; facts added from the table
// of instances are marked. Without devices: "trn1.32xlarge (dmi): no Neuron devices", or "no Neuron
// devices".
std::string MachineText(const Machine& machine);

// The machine as an instance for fitting: its own cores and memory, and, where its cores are
// divided in the default way, the table's sizes. kUnsupported naming the unknown facts.
Result<Instance> InstanceOf(const Machine& machine);

}  // namespace nxdkit::hardware
