#include "trainer/rollout/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

extern char** environ;

namespace nxdkit::trainer {
namespace {

// What a program needs to find its libraries, its files and its words.
constexpr std::array<std::string_view, 13> kNames = {
    "PATH",         "HOME",          "USER",
    "LOGNAME",      "LANG",          "TZ",
    "TMPDIR",       "TEMP",          "LD_LIBRARY_PATH",
    "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS",
    "LSAN_OPTIONS"};
constexpr std::string_view kLocale = "LC_";
// Ranks and their threads wait for each other thousands of times in a second; with more of them
// than processors, the default of 300,000 turns of a loop costs a factor of five (measured).
constexpr std::string_view kSpin = "GOMP_SPINCOUNT=20000";

std::string_view NameOf(std::string_view entry) { return entry.substr(0, entry.find('=')); }

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// Between fork and exec: only what may be called there. Reports errno through `report`.
[[noreturn]] void Become(char* const* words, char* const* environment, int socket, int report,
                         pid_t parent) {
  ::setpgid(0, 0);  // Ctrl-C is for the trainer, which then ends its workers
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::dup2(socket, STDIN_FILENO) >= 0 && ::dup2(socket, STDOUT_FILENO) >= 0)
    ::execve(words[0], words, environment);
  const int failure = errno;
  if (::write(report, &failure, sizeof failure) < 0) ::_exit(126);
  ::_exit(127);
}

}  // namespace

std::vector<std::string> WorkerEnvironment(const std::vector<std::string>& more) {
  std::vector<std::string> out = more;
  const auto add = [&](std::string_view entry) {
    const bool said = std::ranges::any_of(
        more, [&](const std::string& own) { return NameOf(own) == NameOf(entry); });
    if (!said) out.emplace_back(entry);
  };
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view name = NameOf(*entry);
    if (name.starts_with(kLocale) || std::ranges::find(kNames, name) != kNames.end()) add(*entry);
  }
  add(kSpin);
  std::ranges::sort(out);
  return out;
}

Result<WorkerProcess> WorkerProcess::Start(const std::vector<std::string>& command,
                                           const std::vector<std::string>& environment) {
  NXDKIT_CHECK(!command.empty());
  int sockets[2], report[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return OutputError("make a socket for a rollout worker", errno);
  if (::pipe2(report, O_CLOEXEC) != 0) {
    const int failure = errno;
    ::close(sockets[0]);
    ::close(sockets[1]);
    return OutputError("make a pipe for a rollout worker", failure);
  }
  const std::vector<char*> words = Pointers(command);
  const std::vector<char*> entries = Pointers(environment);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  int failure = child < 0 ? errno : 0;
  if (child == 0) Become(words.data(), entries.data(), sockets[1], report[1], parent);
  ::close(sockets[1]);
  ::close(report[1]);
  if (child > 0) {
    ::setpgid(child, child);  // whichever of the two comes first
    while (::read(report[0], &failure, sizeof failure) < 0 && errno == EINTR) {
    }
  }
  ::close(report[0]);
  if (child < 0) {
    ::close(sockets[0]);
    return OutputError("start a rollout worker", failure).in(command[0]);
  }
  WorkerProcess process(child, sockets[0]);
  if (failure != 0) return SystemError("start the rollout worker", failure).in(command[0]);
  return process;
}

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept { *this = std::move(other); }

WorkerProcess& WorkerProcess::operator=(WorkerProcess&& other) noexcept {
  if (this == &other) return *this;
  End();
  pid_ = std::exchange(other.pid_, -1);
  fd_ = std::exchange(other.fd_, -1);
  in_ = std::move(other.in_);
  out_ = std::move(other.out_);
  sent_ = other.sent_;
  last_heard_ = other.last_heard_;
  return *this;
}

WorkerProcess::~WorkerProcess() { End(); }

bool WorkerProcess::Pump() {
  while (sent_ < out_.size()) {
    const ssize_t sent =
        ::send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) break;  // what it wrote before it went is still read below
    sent_ += static_cast<size_t>(sent);
  }
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
  }
  while (true) {
    char some[64 << 10];
    const ssize_t got = ::recv(fd_, some, sizeof some, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (got == 0) return false;
    in_.append(some, static_cast<size_t>(got));
    Expect();
    // No more than a frame and a bit: the rest waits in the socket.
    if (in_.size() > kMaxFrameBytes + kFrameHeaderBytes) return true;
  }
}

std::string WorkerProcess::End() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  if (pid_ < 0) return "";
  // It may have ended by itself a moment ago: then that is how it ended.
  int status = 0;
  pid_t got = ::waitpid(pid_, &status, WNOHANG);
  ::kill(-pid_, SIGKILL);
  while (got != pid_) {
    got = ::waitpid(pid_, &status, 0);
    if (got < 0 && errno != EINTR) break;
  }
  pid_ = -1;
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace nxdkit::trainer
