#include "trainer/rollout/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace nxdkit::trainer {
namespace {

// What a program needs to find its libraries, its files and its words.
constexpr std::array<std::string_view, 13> kKeptNames = {
    "PATH",         "HOME",          "USER",
    "LOGNAME",      "LANG",          "TZ",
    "TMPDIR",       "TEMP",          "LD_LIBRARY_PATH",
    "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS",
    "LSAN_OPTIONS"};
constexpr std::array<std::string_view, 1> kKeptPrefixes = {"LC_"};
// Ranks and their threads wait for each other thousands of times in a second; with more of them
// than processors, the default of 300,000 turns of a loop costs a factor of five (measured).
constexpr std::string_view kSpin = "GOMP_SPINCOUNT=20000";

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

Result<WorkerProcess> WorkerProcess::Start(const std::vector<std::string>& command,
                                           const std::vector<std::string>& environment,
                                           const std::string& log_file, int signal) {
  NXDKIT_CHECK(!command.empty());
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return OutputError("make a socket for a rollout worker", errno);
  Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  Descriptor log;
  if (!log_file.empty())
    log = Descriptor(
        ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666));
  NXDKIT_ASSIGN(Process process, Process::Start({.program = command[0],
                                                 .words = command,
                                                 .environment = environment,
                                                 .in = theirs.fd(),
                                                 .out = theirs.fd(),
                                                 .err = log.is_open() ? log.fd() : STDERR_FILENO,
                                                 .signal_with_parent = signal}));
  return WorkerProcess(std::move(process), std::move(ours));
}

bool WorkerProcess::Pump() {
  while (sent_ < out_.size()) {
    const ssize_t sent =
        ::send(fd(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) break;  // what it wrote before it went is still read below
    sent_ += static_cast<size_t>(sent);
  }
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
  }
  // One piece: the frames in it are taken before there is more, so that no more than a frame and a
  // bit is kept. The rest waits in the socket.
  char some[64 << 10];
  ssize_t got;
  do {
    got = ::recv(fd(), some, sizeof some, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  if (got == 0) return false;
  in_.append(some, static_cast<size_t>(got));
  Expect();
  return true;
}

std::string WorkerProcess::End(std::chrono::milliseconds grace) {
  socket_.Close();
  if (grace.count() > 0) process_.WaitForEnd(grace);
  process_.Kill();
  return process_.EndText();
}

}  // namespace nxdkit::trainer
