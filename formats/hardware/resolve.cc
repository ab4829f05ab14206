#include "formats/hardware/resolve.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/choice.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/look.h"

namespace nxdkit::hardware {
namespace {

constexpr auto kMostUnasked = std::chrono::seconds(5);
constexpr size_t kShownHolders = 3;

Error NoDevices(const Machine& machine) {
  std::string asked;
  for (const std::string& source : machine.asked) asked += "; " + source;
  return BadUsage("--instance auto: there are no Neuron devices here{}", asked)
      .hint(
          "name the instance, such as --instance trn1.32xlarge, or a file with what neuron-ls "
          "--json-output printed there");
}

Result<ResolvedInstance> Resolved(Machine machine) {
  ResolvedInstance resolved;
  NXDKIT_ASSIGN(resolved.instance, InstanceOf(machine));
  resolved.notes.push_back(MachineText(machine));
  if (!machine.guess_basis.empty())
    resolved.notes.push_back(
        fmt::format("{} is a guess: {}", *machine.instance, machine.guess_basis));
  if (!resolved.instance.sizes_known)
    resolved.notes.push_back(fmt::format(
        "the tensor parallel sizes of {}{} are not known: only its cores and memory are checked",
        resolved.instance.name, machine.lnc ? fmt::format(" at LNC {}", *machine.lnc) : ""));
  resolved.notes.insert(resolved.notes.end(), machine.notes.begin(), machine.notes.end());
  resolved.machine = std::move(machine);
  return resolved;
}

// "pid 4711 (python train.py) holds devices 0 and 1"
std::string HolderText(const Holder& holder) {
  std::vector<std::string> devices;
  for (const int64_t device : holder.devices) devices.push_back(std::to_string(device));
  return fmt::format("{}{}{}", holder.pid > 0 ? fmt::format("pid {}", holder.pid) : "a process",
                     holder.command.empty() ? "" : fmt::format(" ({})", holder.command),
                     devices.empty() ? "" : " on " + FirstNames(devices, 4));
}

std::string HoldersText(const std::vector<Holder>& holders) {
  std::vector<std::string> texts;
  for (const Holder& holder : holders) texts.push_back(HolderText(holder));
  return FirstNames(texts, kShownHolders);
}

void CheckAsked(const Machine& machine, const Instance& asked, std::vector<std::string>& out) {
  const std::string cores =
      machine.cores() > 0 ? fmt::format(" with {} cores", machine.cores()) : "";
  if (machine.instance && !MayBe(machine, asked))
    out.push_back(fmt::format("{} was requested, and this machine is {}{}{}", asked.name,
                              *machine.instance, cores,
                              machine.guess_basis.empty() ? "" : ", as far as can be guessed"));
  else if (machine.cores() > 0 && machine.cores() != asked.cores)
    out.push_back(fmt::format("{} has {} cores, and of this machine {} can be used", asked.name,
                              asked.cores, machine.cores()));
  if (machine.cores_per_device && machine.lnc && asked.cores_per_device() > 0 &&
      asked.platform != "trn1" && *machine.cores_per_device != asked.cores_per_device())
    out.push_back(
        fmt::format("this machine is set to LNC {}: a device has {} cores, and the plan "
                    "is for {}",
                    *machine.lnc, *machine.cores_per_device, asked.cores_per_device()));
}

void CheckCores(const Machine& machine, int64_t cores, std::vector<std::string>& out) {
  if (machine.cores() > 0 && cores > machine.cores())
    out.push_back(fmt::format("the run is for {} cores, and {} has {}", cores, MachineName(machine),
                              machine.cores()));
  else if (machine.given.any() && cores > machine.given.size())
    out.push_back(fmt::format("the run is for {} cores, and {} leaves it {}", cores,
                              machine.given.text, machine.given.size()));
  if (std::string lacking = LackingCores(machine); !lacking.empty())
    out.push_back(std::move(lacking));
}

// The probable meaning of a name: "AUTO", or a capture in the current folder whose name lacks
// ".json", look like names of instances. "" if neither.
std::string MeantBy(const std::string& name) {
  std::string lower = name;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (lower == kAuto) return "did you mean auto?";
  if (KindForHint(name) != PathKind::kFile) return "";
  return fmt::format("did you mean the file? ./{} names it", name);
}

}  // namespace

bool IsReadInstance(const std::string& name) {
  const std::string_view word = name;
  return word == kAuto || word.find('/') != word.npos || word.ends_with(".json");
}

Result<ResolvedInstance> ResolveInstance(const std::string& name, const MachineSources& sources) {
  if (!IsReadInstance(name)) {
    const Result<const Instance*> found = FindInstance(name);
    const std::string meant = found.ok() ? "" : MeantBy(name);
    if (!meant.empty()) return BadUsage("{}", found.error().message()).hint(meant);
    if (!found.ok()) return found.error();
    return ResolvedInstance{**found, std::nullopt, {}};
  }
  if (name != kAuto) {
    NXDKIT_ASSIGN(Machine machine, MachineOfCapture(name));
    if (!machine.has_devices()) return Corrupt("it lists no devices").in(name);
    Result<ResolvedInstance> resolved = Resolved(std::move(machine));
    return resolved.ok() ? resolved : Error(resolved.error()).in(name);
  }
  NXDKIT_ASSIGN(Machine machine, ReadMachine(sources));
  return ResolveMachine(std::move(machine));
}

Result<ResolvedInstance> ResolveMachine(Machine machine) {
  if (!machine.has_devices()) return NoDevices(machine);
  return Resolved(std::move(machine));
}

Result<std::optional<Machine>> MachineHere(MachineSources sources) {
  if (!MayHaveDevices(sources.root)) return std::optional<Machine>();
  sources.most = std::min<std::chrono::milliseconds>(sources.most, kMostUnasked);
  NXDKIT_ASSIGN(Machine machine, ReadMachine(sources));
  return machine.has_devices() ? std::optional(std::move(machine)) : std::nullopt;
}

std::vector<std::string> Disagreements(const Machine& machine, const DeviceRun& run) {
  std::vector<std::string> found;
  if (run.asked) CheckAsked(machine, *run.asked, found);
  if (run.cores > 0) CheckCores(machine, run.cores, found);
  if (!machine.holders.empty())
    found.push_back(
        fmt::format("devices are held by other processes: {}", HoldersText(machine.holders)));
  return found;
}

}  // namespace nxdkit::hardware
