#include "formats/hardware/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/hardware/fit.h"
#include "lib/base/choice.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::hardware {
namespace {

constexpr char kByTable[] = "the table of instances";
constexpr char kByGuess[] = "a guess";
constexpr size_t kMostHolders = 256;

// Physical cores of a device of trn2 and trn3 (trn2-arch and trn3-arch of the SDK's guide; that
// trn3's default is LNC 2 as well is inferred).
constexpr int64_t kPhysicalCores = 8;

const Instance* InTable(const std::string& name) {
  const auto found = FindInstance(name);
  return found.ok() ? *found : nullptr;
}

// The compilers' word, by the name's family or by a device's memory; "" when neither shows it. 144
// GiB is trn3's (trn3-arch).
std::string PlatformOf(const Machine& machine) {
  if (machine.instance)
    for (const auto& [prefix, platform] :
         {std::pair("trn1", "trn1"), {"inf2", "trn1"}, {"trn2", "trn2"}, {"trn3", "trn3"}})
      if (machine.instance.value->starts_with(prefix)) return platform;
  switch (machine.device_bytes.value.value_or(0) >> 30) {
    case 32:
      return "trn1";
    case 96:
      return "trn2";
    case 144:
      return "trn3";
    default:
      return "";
  }
}

// The value common to all devices; nullopt with a note when they differ, or some do not report it.
template <typename T>
Told<T> OfAll(const NeuronLs& listing, std::optional<T> NeuronDevice::*value, const std::string& by,
              std::string_view what, std::vector<std::string>& notes) {
  std::optional<T> common;
  bool differs = false, missing = false;
  for (const NeuronDevice& device : listing.devices) {
    const std::optional<T>& own = device.*value;
    missing |= !own;
    differs |= own && common && *own != *common;
    if (own && !common) common = own;
  }
  if (differs || (common && missing))
    notes.push_back(fmt::format("the devices {} {}: it is taken as unknown",
                                differs ? "differ in their" : "do not all report their", what));
  if (!common || differs || missing) return {};
  return {common, by};
}

void TakeHolders(const NeuronLs& listing, Machine& machine) {
  for (const NeuronDevice& device : listing.devices)
    for (const DeviceProcess& process : device.processes) {
      auto found = std::ranges::find(machine.holders, process.pid, &Holder::pid);
      if (found == machine.holders.end() || process.pid == 0) {
        if (machine.holders.size() == kMostHolders) continue;
        found = machine.holders.insert(machine.holders.end(), Holder{process, {}});
      }
      if (device.number) found->devices.push_back(*device.number);
    }
}

bool IsLike(const Instance& row, const Machine& machine) {
  return row.devices == *machine.devices && row.cores_per_device() == *machine.cores_per_device &&
         row.device_bytes == *machine.device_bytes;
}

// Instances that train come first: an inf2 of the same size differs only in not being one.
void GuessInstance(Machine& machine) {
  if (machine.instance || !machine.devices || !machine.cores_per_device || !machine.device_bytes)
    return;
  std::vector<std::string> like;
  for (const bool trains : {true, false})
    for (const Instance& row : Instances())
      if (row.workers.empty() != trains && IsLike(row, machine)) like.push_back(row.name);
  if (like.empty()) return;
  machine.instance = {like.front(), kByGuess};
  machine.guess_basis = fmt::format(
      "{} of {} and {} {} what {} {}", Counted(*machine.devices, "device"),
      Counted(*machine.cores_per_device, "core"), GibText(*machine.device_bytes),
      *machine.devices == 1 ? "is" : "are", FirstNames(like, 8), like.size() == 1 ? "has" : "have");
}

bool DividesCores(const Machine& machine) {
  const std::string platform = PlatformOf(machine);
  return platform == "trn2" || platform == "trn3";
}

void TakeCoresOfLnc(Machine& machine) {
  if (!DividesCores(machine) || machine.cores_per_device || !machine.lnc) return;
  if (kPhysicalCores % *machine.lnc == 0)
    machine.cores_per_device = {kPhysicalCores / *machine.lnc, "LNC"};
}

void TakeLncOfCores(Machine& machine) {
  if (!DividesCores(machine) || !machine.cores_per_device) return;
  const int64_t cores = *machine.cores_per_device;
  if (!machine.lnc && kPhysicalCores % cores == 0)
    machine.lnc = {kPhysicalCores / cores, "cores per device"};
  else if (machine.lnc && *machine.lnc * cores != kPhysicalCores)
    machine.notes.push_back(fmt::format("LNC {} does not match {} a device, which has {}",
                                        *machine.lnc, Counted(cores, "core"),
                                        Counted(kPhysicalCores, "physical core")));
}

void FillFromTable(const Instance& row, Machine& machine) {
  if (!machine.devices) machine.devices = {row.devices, kByTable};
  if (!machine.cores_per_device) machine.cores_per_device = {row.cores_per_device(), kByTable};
  if (!machine.device_bytes) machine.device_bytes = {row.device_bytes, kByTable};
  if (*machine.devices > row.devices)
    machine.notes.push_back(fmt::format("{} has {}, and {} are there", row.name,
                                        Counted(row.devices, "device"), *machine.devices));
  if (*machine.devices < row.devices)
    machine.notes.push_back(
        fmt::format("{} in the table of instances, {} seen (a container, or failed devices)",
                    Counted(row.devices, "device"), *machine.devices));
  if (*machine.device_bytes != row.device_bytes)
    machine.notes.push_back(fmt::format("a device of {} has {}, but {} are reported here", row.name,
                                        GibText(row.device_bytes), GibText(*machine.device_bytes)));
}

// The sizes of a list that fit on `cores`.
std::span<const int64_t> UpTo(std::span<const int64_t> sizes, int64_t cores) {
  return sizes.first(static_cast<size_t>(
      std::ranges::count_if(sizes, [&](int64_t size) { return size <= cores; })));
}

// Marks a fact that only the table supplies.
std::string ByText(const std::string& by) {
  return by == kByTable ? fmt::format(" ({})", kByTable) : "";
}

}  // namespace

int64_t Machine::cores() const {
  return devices && cores_per_device ? *devices * *cores_per_device : 0;
}

uint64_t Machine::core_bytes() const {
  return cores_per_device && device_bytes ? *device_bytes / static_cast<uint64_t>(*cores_per_device)
                                          : 0;
}

Machine MachineOf(const NeuronLs& listing, const std::string& by) {
  Machine machine;
  machine.notes = listing.notes;
  if (!listing.instance_type.empty()) machine.instance = {listing.instance_type, by};
  machine.devices = {std::ssize(listing.devices), by};
  std::vector<std::string>& notes = machine.notes;
  machine.cores_per_device = OfAll(listing, &NeuronDevice::cores, by, "numbers of cores", notes);
  machine.lnc = OfAll(listing, &NeuronDevice::lnc, by, "LNC", notes);
  machine.device_bytes = OfAll(listing, &NeuronDevice::memory_bytes, by, "memory", notes);
  machine.tells_holders = true;
  TakeHolders(listing, machine);
  return machine;
}

void Complete(Machine& machine) {
  GuessInstance(machine);
  TakeCoresOfLnc(machine);
  if (machine.has_devices() && machine.instance)
    if (const Instance* row = InTable(*machine.instance)) FillFromTable(*row, machine);
  TakeLncOfCores(machine);
}

bool MayBe(const Machine& machine, const Instance& row) {
  if (!machine.instance) return false;
  return *machine.instance == row.name || (!machine.guess_basis.empty() && IsLike(row, machine));
}

std::string LackingCores(const Machine& machine) {
  const int64_t cores = machine.cores();
  if (cores == 0 || !machine.given.any()) return "";
  if (!machine.given.visible)
    return machine.given.size() > cores
               ? fmt::format("{} asks for more cores than the {} here", machine.given.text, cores)
               : "";
  const int64_t last = *std::ranges::max_element(*machine.given.visible);
  if (last < cores) return "";
  return fmt::format("{} names core {}, and the cores here are 0 to {}", machine.given.text, last,
                     cores - 1);
}

std::string MachineName(const Machine& machine) {
  if (machine.instance) return *machine.instance;
  const std::string platform = PlatformOf(machine);
  return fmt::format("a machine with {}{}",
                     Counted(machine.devices.value.value_or(0), "Neuron device"),
                     platform.empty() ? "" : " of " + platform);
}

std::string MachineText(const Machine& machine) {
  if (!machine.has_devices() && !machine.instance) return "no Neuron devices";
  std::string text = MachineName(machine);
  if (machine.instance) text += fmt::format(" ({})", machine.instance.by);
  if (!machine.has_devices()) return text + ": no Neuron devices";
  std::vector<std::string> facts = {Counted(*machine.devices, "device")};
  if (machine.cores() > 0)
    facts.push_back(Counted(machine.cores(), "core") + ByText(machine.cores_per_device.by));
  if (machine.lnc) facts.push_back(fmt::format("LNC {}", *machine.lnc));
  if (machine.core_bytes() > 0)
    facts.push_back(GibText(machine.core_bytes()) + " a core" + ByText(machine.device_bytes.by));
  return fmt::format("{}: {}", text, fmt::join(facts, ", "));
}

Result<Instance> InstanceOf(const Machine& machine) {
  const char* const missing = !machine.has_devices()      ? "how many devices it has"
                              : !machine.cores_per_device ? "how many cores a device has"
                              : !machine.device_bytes     ? "how much memory a device has"
                                                          : nullptr;
  if (missing)
    return Unsupported("{}: {} is not known", MachineName(machine), missing)
        .hint("name an instance of its kind, such as --instance trn1.32xlarge");
  Instance instance{.name = MachineName(machine),
                    .platform = PlatformOf(machine),
                    .devices = *machine.devices,
                    .cores = machine.cores(),
                    .device_bytes = *machine.device_bytes,
                    .inference_tp = {},
                    .workers = {},
                    .sizes_known = false};
  const Instance* row = machine.instance ? InTable(*machine.instance) : nullptr;
  if (!row || row->cores_per_device() != instance.cores_per_device()) return instance;
  instance.inference_tp = UpTo(row->inference_tp, instance.cores);
  instance.workers = UpTo(row->workers, instance.cores);
  instance.sizes_known = true;
  return instance;
}

}  // namespace nxdkit::hardware
