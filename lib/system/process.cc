#include "lib/system/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/family.h"
#include "lib/system/folders.h"

extern char** environ;

namespace nxdkit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMilliseconds = 5;  // for kernels without pidfd
constexpr auto kReaping = std::chrono::seconds(1);

// The entries of a list like PATH that do not depend on the working directory.
std::vector<std::string_view> AbsolutePlaces(std::string_view list) {
  std::vector<std::string_view> places = Split(list, ':');
  std::erase_if(places, [](std::string_view place) { return !place.starts_with('/'); });
  return places;
}

bool IsExecutableFile(const std::string& path) {
  // As a shell searches $PATH: entries that cannot be looked at are skipped.
  return KindForHint(path) == PathKind::kFile && ::access(path.c_str(), X_OK) == 0;
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

constexpr long kMostDescriptors = 1 << 16;

// The arguments of Become, made before the fork: no memory may be allocated after it.
struct NewProgram {
  const char* program;
  char* const* words;
  char* const* environment;
  std::array<int, 3> streams;  // -1: keep ours
  const char* folder;          // nullptr: keep ours
  int report;                  // receives errno on failure
  int signal_with_parent;
  pid_t parent;
  int most_descriptors;
};

// Moves the descriptor above the standard streams, which are replaced one by one; closed on exec.
int AboveStandard(int fd) { return ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); }

// Between fork and exec: only what may be called there.
[[noreturn]] void Become(const NewProgram& to) {
  ::setpgid(0, 0);
  const int report = AboveStandard(to.report);
  if (to.signal_with_parent != 0) {
    ::prctl(PR_SET_PDEATHSIG, to.signal_with_parent);
    if (::getppid() != to.parent) ::_exit(127);
  }
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  // To nxdkit it means: save. Slurm sends it to all processes of a step; those without a handler
  // die.
  ::signal(SIGUSR1, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  int streams[3];
  for (int i = 0; i < 3; ++i) streams[i] = to.streams[i] < 0 ? i : AboveStandard(to.streams[i]);
  bool ready = true;
  for (int i = 0; i < 3; ++i) ready = ready && (streams[i] == i || ::dup2(streams[i], i) >= 0);
  // Descriptors opened by libraries: a connection that a child shares does not end with this
  // process.
  if (::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) != 0)  // before Linux 5.11
    for (int fd = STDERR_FILENO + 1; fd < to.most_descriptors; ++fd)
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  ready = ready && (to.folder == nullptr || ::chdir(to.folder) == 0);
  if (ready) ::execve(to.program, to.words, to.environment);
  const int failure = errno;
  if (::write(report, &failure, sizeof failure) < 0) ::_exit(126);
  ::_exit(127);
}

// Handles stay valid when the numbers of the processes are used again.
std::vector<Descriptor> HandlesOf(const std::vector<pid_t>& processes) {
  std::vector<Descriptor> out;
  for (const pid_t pid : processes) {
    Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (handle.is_open()) out.push_back(std::move(handle));
  }
  return out;
}

// Returns when none of them runs any more, or a while later.
void KillAll(const std::vector<Descriptor>& processes) {
  for (const Descriptor& handle : processes)
    ::syscall(SYS_pidfd_send_signal, handle.fd(), SIGKILL, nullptr, 0);
  const Clock::time_point until = Clock::now() + kReaping;
  for (const Descriptor& handle : processes) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd waiting{handle.fd(), POLLIN, 0};
    ::poll(&waiting, 1, static_cast<int>(std::max<int64_t>(left, 0)));
  }
}

// errno of the child that could not become the program; 0 when it did.
int FailureOf(const Descriptor& report) {
  int failure = 0;
  while (::read(report.fd(), &failure, sizeof failure) < 0 && errno == EINTR) {
  }
  return failure;
}

}  // namespace

std::optional<std::string> FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return IsExecutableFile(name) ? std::optional<std::string>(name) : std::nullopt;
  const std::string path = EnvironmentValue("PATH");
  for (const std::string_view place : AbsolutePlaces(path))
    if (std::string file = JoinPath(place, name); IsExecutableFile(file)) return file;
  return std::nullopt;
}

std::vector<std::string> WholeEnvironment() {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    out.emplace_back(*entry);
  return out;
}

std::vector<std::string> WithoutRelativePlaces(std::vector<std::string> environment) {
  for (std::string& entry : environment) {
    const std::string name(VariableName(entry));
    if (name != "PATH" && name != "LD_LIBRARY_PATH") continue;
    const auto places = AbsolutePlaces(std::string_view(entry).substr(name.size() + 1));
    entry = fmt::format("{}={}", name, fmt::join(places, ":"));
  }
  // An empty list is one empty entry.
  std::erase_if(environment, [](std::string_view entry) { return entry == "LD_LIBRARY_PATH="; });
  return environment;
}

std::string EnvironmentValue(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string_view VariableName(std::string_view entry) { return entry.substr(0, entry.find('=')); }

std::vector<std::string> EnvironmentOf(std::span<const std::string_view> names,
                                       std::span<const std::string_view> prefixes) {
  std::vector<std::string> out = WholeEnvironment();
  std::erase_if(out, [&](std::string_view entry) {
    const std::string_view name = VariableName(entry);
    return std::ranges::find(names, name) == names.end() &&
           std::ranges::none_of(prefixes, [&](std::string_view p) { return name.starts_with(p); });
  });
  return out;
}

Result<PipeEnds> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return OutputError("make a pipe", errno);
  return PipeEnds{Descriptor(ends[0]), Descriptor(ends[1])};
}

ssize_t WriteQuietly(int fd, std::string_view bytes) {
  sigset_t pipe_signal, before, pending;
  ::sigemptyset(&pipe_signal);
  ::sigaddset(&pipe_signal, SIGPIPE);
  ::sigpending(&pending);
  const bool was_pending = ::sigismember(&pending, SIGPIPE) == 1;
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const ssize_t written = ::write(fd, bytes.data(), bytes.size());
  const int failure = errno;
  if (written < 0 && failure == EPIPE && !was_pending) {
    // The signal went to this thread: removed before anybody sees it.
    const timespec now = {};
    while (::sigtimedwait(&pipe_signal, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = failure;
  return written;
}

Process::Process(pid_t pid, std::string mark)
    : pid_(pid),
      mark_(std::move(mark)),
      pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}

Process::Process(Process&& other) noexcept { *this = std::move(other); }

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(mark_, other.mark_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(reaped_, other.reaped_);
  std::swap(status_, other.status_);
  return *this;
}

Result<Process> Process::Start(const ProcessOptions& options) {
  NXDKIT_CHECK(!options.words.empty());
  NXDKIT_ASSIGN(PipeEnds report, MakePipe().in(options.program));
  std::string mark = NewFamilyMark();
  const std::vector<char*> words = Pointers(options.words);
  std::vector<std::string> entries = options.environment;
  entries.push_back(mark);
  const std::vector<char*> environment = Pointers(entries);
  const NewProgram to = {
      .program = options.program.c_str(),
      .words = words.data(),
      .environment = environment.data(),
      .streams = {options.in, options.out, options.err},
      .folder = options.folder.empty() ? nullptr : options.folder.c_str(),
      .report = report.write.fd(),
      .signal_with_parent = options.signal_with_parent,
      .parent = ::getpid(),
      .most_descriptors = static_cast<int>(std::min(::sysconf(_SC_OPEN_MAX), kMostDescriptors))};
  const pid_t pid = ::fork();
  if (pid < 0) return OutputError("start a process for", errno).in(options.program);
  if (pid == 0) Become(to);
  ::setpgid(pid, pid);  // in both processes, whichever comes first
  Process process(pid, std::move(mark));
  report.write.Close();
  if (const int failure = FailureOf(report.read); failure != 0)
    return NotFound("cannot start it: {}", std::strerror(failure)).in(options.program);
  return process;
}

bool Process::HasEnded() const {
  if (pid_ < 0 || reaped_) return true;
  // Not reaped: the zombie keeps the group's number from being used again.
  siginfo_t info = {};
  const int failed = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  if (failed != 0) return errno == ECHILD;  // SIGCHLD is ignored: the kernel reaped it
  return info.si_pid == pid_;
}

bool Process::WaitForEnd(Time most) const {
  const Clock::time_point until = Clock::now() + most;
  while (!HasEnded()) {
    const auto left = std::chrono::ceil<Time>(until - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waiting{pidfd_.fd(), POLLIN, 0};
    const int64_t step = pidfd_.is_open() ? left : std::min<int64_t>(left, kPollMilliseconds);
    ::poll(&waiting, 1, static_cast<int>(std::min<int64_t>(step, 1 << 30)));
  }
  return true;
}

void Process::End(Time grace) {
  if (pid_ < 0 || reaped_) return;
  if (!HasEnded()) {
    // Processes whose parents end when asked are known by descent only now.
    const std::vector<Descriptor> family = HandlesOf(RunningFamily(pid_, mark_));
    ::kill(-pid_, SIGTERM);
    WaitForEnd(grace);
    KillAll(family);
  }
  Kill();
}

void Process::Kill() {
  if (pid_ < 0 || reaped_) return;
  KillFamily();
  // A process that hangs in the kernel, at a file system that is gone, ends when that returns: it
  // is not waited for. Whoever reaps what we leave reaps it.
  if (WaitForEnd(kReaping)) {
    pid_t got;
    do {
      got = ::waitpid(pid_, &status_, 0);
    } while (got < 0 && errno == EINTR);
  }
  reaped_ = true;
  pidfd_.Close();
}

// Not reaped yet: the number is still the program's own. Repeats until none is left, because a
// process may be starting the next one meanwhile.
void Process::KillFamily() const {
  const Clock::time_point until = Clock::now() + kReaping;
  while (true) {
    const std::vector<pid_t> running = RunningFamily(pid_, mark_);
    ::kill(-pid_, SIGKILL);
    for (const pid_t pid : running) ::kill(pid, SIGKILL);
    if (running.empty() || Clock::now() >= until) return;
    ::poll(nullptr, 0, 1);
  }
}

int Process::exit_code() const {
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

std::string Process::EndText() const {
  if (WIFEXITED(status_)) return fmt::format("exited with {}", WEXITSTATUS(status_));
  return fmt::format("was killed by signal {}", WTERMSIG(status_));
}

}  // namespace nxdkit
