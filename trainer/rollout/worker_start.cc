#include "trainer/rollout/worker_start.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "lib/system/process.h"

namespace nxdkit::trainer {
namespace {

// Variables by which a program finds its libraries, its files and its locale.
constexpr std::array<std::string_view, 13> kKeptNames = {
    "PATH",         "HOME",          "USER",
    "LOGNAME",      "LANG",          "TZ",
    "TMPDIR",       "TEMP",          "LD_LIBRARY_PATH",
    "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS",
    "LSAN_OPTIONS"};
constexpr std::array<std::string_view, 1> kKeptPrefixes = {"LC_"};
// Ranks and their threads wait for each other thousands of times per second; if there are more of
// them than processors, the default of 300,000 spins costs a factor of five (measured).
constexpr std::string_view kSpin = "GOMP_SPINCOUNT=20000";

class LocalWorker : public RunningWorker {
 public:
  explicit LocalWorker(Process process) : process_(std::move(process)) {}
  pid_t pid() const override { return process_.pid(); }
  std::string End(std::chrono::milliseconds grace) override {
    if (grace.count() > 0) process_.WaitForEnd(grace);
    process_.Kill();
    return process_.EndText();
  }

 private:
  Process process_;  // killed with the object, with all that it started
};

}  // namespace

std::vector<std::string> WorkerEnvironment(const std::vector<std::string>& more) {
  std::vector<std::string> out = more;
  const auto add = [&](std::string_view entry) {
    const bool said = std::ranges::any_of(
        more, [&](const std::string& own) { return VariableName(own) == VariableName(entry); });
    if (!said) out.emplace_back(entry);
  };
  for (const std::string& entry : EnvironmentOf(kKeptNames, kKeptPrefixes)) add(entry);
  add(kSpin);
  std::ranges::sort(out);
  return out;
}

Result<std::pair<Descriptor, Descriptor>> MakeWorkerSockets() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return OutputError("make a socket for a rollout worker", errno);
  return std::pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

Result<StartedWorker> StartLocalWorker(const LocalWorkerOptions& options) {
  NXDKIT_CHECK(!options.command.empty());
  NXDKIT_ASSIGN(auto sockets, MakeWorkerSockets());
  Descriptor log;
  if (!options.log_file.empty())
    log = Descriptor(::open(options.log_file.c_str(),
                            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666));
  NXDKIT_ASSIGN(Process process, Process::Start({.program = options.command[0],
                                                 .words = options.command,
                                                 .environment = options.environment,
                                                 .in = sockets.second.fd(),
                                                 .out = sockets.second.fd(),
                                                 .err = log.is_open() ? log.fd() : STDERR_FILENO,
                                                 .signal_with_parent = options.signal}));
  return StartedWorker{std::make_unique<LocalWorker>(std::move(process)), std::move(sockets.first)};
}

}  // namespace nxdkit::trainer
