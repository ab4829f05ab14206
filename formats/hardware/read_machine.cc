#include "formats/hardware/read_machine.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "lib/base/errors.h"
#include "lib/base/stopwatch.h"
#include "lib/base/text.h"
#include "lib/system/child.h"
#include "lib/system/descriptor.h"
#include "lib/system/file.h"
#include "lib/system/look.h"
#include "lib/system/paths.h"
#include "lib/system/process.h"
#include "lib/system/run_program.h"

namespace nxdkit::hardware {
namespace {

constexpr char kProgram[] = "neuron-ls";
constexpr char kVendorsProgram[] = "/opt/aws/neuron/bin/neuron-ls";
constexpr char kProductName[] = "/sys/devices/virtual/dmi/id/product_name";
constexpr char kLncVariable[] = "NEURON_LOGICAL_NC_CONFIG";
// The first is the driver's path up to 2.30, the second the listing of its class.
constexpr const char* kCoreCounts[] = {"/sys/devices/virtual/neuron_device/neuron0/core_count",
                                       "/sys/class/neuron_device/neuron0/core_count"};
constexpr int64_t kMostCoreCount = 256;
constexpr size_t kMostLine = 256;
constexpr int kMostPipeSeconds = 20;
constexpr int kMostWaitMilliseconds = 50;

// The first line of a file in /sys or /proc, whose size cannot be used for reading; "" if there is
// none.
std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  char line[kMostLine];
  file.get(line, sizeof(line));
  std::string text(line, static_cast<size_t>(file.gcount()));
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.pop_back();
  return text;
}

// "trn1.32xlarge" or "inf2.xlarge"; also names of instances yet to come.
bool IsNameOfOurs(const std::string& name) {
  const bool family = name.starts_with("trn") || name.starts_with("inf");
  return family && name.size() > 3 && IsDigit(name[3]) && name.find('.') != name.npos;
}

// The number of /dev/neuron<N>.
int64_t CountDeviceFiles(const std::string& root) {
  const auto names = ListFolder(root + "/dev");
  if (!names.ok()) return 0;
  return std::ranges::count_if(*names, [](const std::string& name) {
    constexpr std::string_view kPrefix = "neuron";
    return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
           ParseNumber<uint16_t>(std::string_view(name).substr(kPrefix.size())).has_value();
  });
}

// nullopt: the list cannot be read.
std::optional<bool> HasDriver(const std::string& root) {
  std::ifstream file(root + "/proc/devices");
  if (!file) return std::nullopt;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string major, name;
    if (words >> major >> name && name == "neuron") return true;
  }
  return false;
}

std::vector<std::string> ProgramEnvironment() {
  constexpr std::string_view kNames[] = {"PATH", "HOME", "LANG", "LD_LIBRARY_PATH"};
  constexpr std::string_view kPrefixes[] = {"LC_", "NEURON_"};
  return WithoutRelativePlaces(EnvironmentOf(kNames, kPrefixes));
}

// A file of this name in PATH that is not executable, where somebody will look.
std::string NotExecutableInPath() {
  const std::string path = EnvironmentValue("PATH");
  for (const std::string_view folder : Split(path, ':'))
    if (folder.starts_with('/') && KindForHint(JoinPath(folder, kProgram)) == PathKind::kFile)
      return JoinPath(folder, kProgram);
  return "";
}

// The path of an executable program, or why there is none.
Result<std::string> ProgramInPath() {
  if (const auto program = FindProgram(kProgram)) return *program;
  const std::string file = NotExecutableInPath();
  if (file.empty()) return NotFound("neuron-ls: not in PATH");
  return NotFound("{}: it may not be executed", file);
}

Result<std::string> ProgramOfVendor(const std::string& root) {
  const std::string path = root + kVendorsProgram;
  if (const auto program = FindProgram(path)) return *program;
  return NotFound("{}: {}", path,
                  KindForHint(path) == PathKind::kMissing ? "not there" : "it may not be executed");
}

Result<Machine> MachineOfProgram(const std::string& program, const MachineSources& sources) {
  NXDKIT_ASSIGN(const std::string text, OutputOf({.program = program,
                                                  .words = {program, "--json-output"},
                                                  .environment = ProgramEnvironment(),
                                                  .most = sources.most,
                                                  .max_bytes = kMaxNeuronLsBytes,
                                                  .poll = sources.poll}));
  NXDKIT_ASSIGN(const NeuronLs listing, ParseNeuronLs(text));
  if (listing.devices.empty()) return NotFound("it lists no devices");
  return MachineOf(listing, kProgram);
}

// Adds the answer to `asked`; nullopt: try the next program.
Result<std::optional<Machine>> AskProgram(const Result<std::string>& program,
                                          const MachineSources& sources,
                                          std::vector<std::string>& asked) {
  if (!program.ok()) {
    asked.push_back(program.error().message());
    return std::optional<Machine>();
  }
  Result<Machine> machine = MachineOfProgram(*program, sources);
  if (!machine.ok()) {
    if (machine.error().code() == Errc::kInterrupted) return machine.error();
    asked.push_back(fmt::format("{}: {}", *program, machine.error().message()));
    return std::optional<Machine>();
  }
  asked.push_back(fmt::format("{}: {}", *program, Counted(*machine->devices, "device")));
  return std::optional(*std::move(machine));
}

// Physical cores, where the driver divides them by NEURON_LOGICAL_NC_CONFIG, 2 by default.
void TakeCoreCount(const std::string& root, Machine& machine) {
  for (const char* path : kCoreCounts) {
    const auto count = ParseNumber<int64_t>(FirstLine(root + path));
    if (!count || *count < 1 || *count > kMostCoreCount) continue;
    const bool physical = *count == 8;
    const int64_t lnc =
        physical ? ParseNumber<int64_t>(EnvironmentValue(kLncVariable)).value_or(2) : 1;
    if (lnc < 1 || *count % lnc != 0) continue;
    machine.cores_per_device = {*count / lnc, "sysfs"};
    if (physical)
      machine.lnc = {lnc, EnvironmentValue(kLncVariable).empty() ? "its default" : kLncVariable};
    return;
  }
}

Machine MachineOfKernel(const std::string& root, std::vector<std::string>& asked) {
  Machine machine;
  const std::string name = FirstLine(root + kProductName);
  if (IsNameOfOurs(name)) machine.instance = {name, "dmi"};
  asked.push_back(
      fmt::format("{}: {}", root + kProductName, name.empty() ? "says nothing" : ShortName(name)));
  const int64_t files = CountDeviceFiles(root);
  const std::optional<bool> driver = HasDriver(root);
  asked.push_back(fmt::format("{}/dev/neuron*: {}{}", root, Counted(files, "device"),
                              driver == false ? ", and /proc/devices has no driver neuron" : ""));
  if (files == 0) return machine;
  if (driver == false) {
    machine.notes.push_back("there are /dev/neuron* files, and no driver that serves them");
    return machine;
  }
  machine.devices = {files, "/dev"};
  TakeCoreCount(root, machine);
  return machine;
}

void TakeGiven(Machine& machine) {
  Result<GivenCores> given = GivenCoresOfProcess();
  if (given.ok())
    machine.given = *std::move(given);
  else
    machine.notes.push_back(given.error().ToString());
}

Result<Machine> Ask(const MachineSources& sources, std::vector<std::string>& asked) {
  NXDKIT_ASSIGN(std::optional<Machine> machine, AskProgram(ProgramInPath(), sources, asked));
  if (!machine) NXDKIT_TRY(AskProgram(ProgramOfVendor(sources.root), sources, asked).To(machine));
  return machine ? *std::move(machine) : MachineOfKernel(sources.root, asked);
}

// The kernel's name, for releases of neuron-ls that do not report the instance.
void TakeNameOfKernel(const std::string& root, Machine& machine) {
  if (machine.instance) return;
  const std::string name = FirstLine(root + kProductName);
  if (IsNameOfOurs(name)) machine.instance = {name, "dmi"};
}

// A shell's "<(ssh host neuron-ls --json-output)" is a pipe; returns a closed descriptor for any
// other path.
Descriptor OpenPipe(const std::string& path) {
  if (KindForHint(path) != PathKind::kOther) return {};
  Descriptor pipe(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  const bool is_pipe = pipe.is_open() && ::fstat(pipe.fd(), &info) == 0 && S_ISFIFO(info.st_mode);
  return is_pipe ? std::move(pipe) : Descriptor();
}

Result<std::string> TextOfPipe(const Descriptor& pipe, const std::string& path,
                               const std::function<Status()>& poll) {
  const Stopwatch watch;
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const std::optional<std::string_view> some = ReadSome(pipe, buffer);
    if (some && some->empty()) return text;
    if (some) text += *some;
    if (text.size() > kMaxNeuronLsBytes)
      return Corrupt("it has more than {} bytes", kMaxNeuronLsBytes).in(path);
    if (poll) NXDKIT_TRY(poll());
    if (watch.Seconds() > kMostPipeSeconds)
      return Error(Errc::kIo,
                   fmt::format("its writer has not ended after {} seconds", kMostPipeSeconds))
          .in(path);
    pollfd wait = {pipe.fd(), POLLIN, 0};
    ::poll(&wait, 1, kMostWaitMilliseconds);
  }
}

}  // namespace

MachineSources SourcesOfProcess(const std::function<Status()>& poll) {
  MachineSources sources;
  sources.root = EnvironmentValue(kRootVariable);
  sources.poll = poll;
  return sources;
}

Result<Machine> ReadMachine(const MachineSources& sources) {
  std::vector<std::string> asked;
  NXDKIT_ASSIGN(Machine machine, Ask(sources, asked));
  TakeNameOfKernel(sources.root, machine);
  TakeGiven(machine);
  Complete(machine);
  machine.asked = std::move(asked);
  return machine;
}

bool MayHaveDevices(const std::string& root) {
  return IsNameOfOurs(FirstLine(root + kProductName)) || CountDeviceFiles(root) > 0;
}

Result<Machine> MachineOfCapture(const std::string& path, const std::function<Status()>& poll) {
  const Descriptor pipe = OpenPipe(path);
  NXDKIT_ASSIGN(const std::string text, pipe.is_open() ? TextOfPipe(pipe, path, poll)
                                                       : ReadSmallFile(path, kMaxNeuronLsBytes));
  const Result<NeuronLs> listing = ParseNeuronLs(text);
  if (!listing.ok()) return Error(listing.error()).in(path);
  Machine machine = MachineOf(*listing, "neuron-ls");
  Complete(machine);
  machine.asked = {fmt::format("{}: {}", path, Counted(*machine.devices, "device"))};
  return machine;
}

}  // namespace nxdkit::hardware
