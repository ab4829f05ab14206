// The facts of a machine with Neuron devices: what was read of it, and from where. Nothing here
// asks the system: read_machine.h does.
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

// A fact, and who tells it: "neuron-ls", "dmi", "/dev", "sysfs", "the table of instances", "a
// guess". Not told: no value.
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
  std::string guess_basis;         // of a type that is a guess: what it was guessed from
  Told<int64_t> devices;           // how many this process can see: a container has some of them
  Told<int64_t> cores_per_device;  // logical ones
  Told<int64_t> lnc;               // physical cores of a logical one, of trn2 and later
  Told<uint64_t> device_bytes;     // of memory
  std::vector<Holder> holders;     // as far as the source tells them
  bool tells_holders = false;      // whether it does
  GivenCores given;                // of the environment of this process
  std::vector<std::string> asked;  // every source, and what it said
  std::vector<std::string> notes;  // what was not understood, or does not agree

  bool has_devices() const { return devices && *devices > 0; }
  int64_t cores() const;        // of all devices; 0: not known
  uint64_t core_bytes() const;  // of memory; 0: not known
};

// The facts of such a listing, of which every device is one of the machine.
Machine MachineOf(const NeuronLs& listing, const std::string& by);

// Fills in what follows from what is known: the numbers of an instance of the table from its name,
// the name, as a guess, from devices, cores and memory. Notes where they do not agree.
void Complete(Machine& machine);

// Whether the machine is of this instance, as far as is known: its name is, or it is a guess, and
// the devices, cores and memory that it was guessed from are those of the row as well.
bool MayBe(const Machine& machine, const Instance& row);

// Why the cores that the environment gives are not all there; "" where they are, or nothing is
// known of them: "NEURON_RT_VISIBLE_CORES=0-99 names core 99, and the cores here are 0 to 31".
std::string LackingCores(const Machine& machine);

// "1 device", "2 devices"
std::string CountText(int64_t count, std::string_view what);

// "trn1.32xlarge", "a machine with 16 Neuron devices": what to call it.
std::string MachineName(const Machine& machine);
// "trn1.32xlarge (neuron-ls): 16 devices, 32 cores, 16.00 GiB a core"; a fact that the table of
// instances has added is said to be its own. Without devices: "trn1.32xlarge (dmi): no Neuron
// devices", or "no Neuron devices".
std::string MachineText(const Machine& machine);

// The machine as an instance that something can be fitted to: its own cores and memory, and where
// its cores are divided as they are by default, the sizes that the table has for it. kUnsupported
// naming what is not known.
Result<Instance> InstanceOf(const Machine& machine);

}  // namespace nxdkit::hardware
