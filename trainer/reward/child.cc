#include "trainer/reward/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

extern char** environ;

namespace nxdkit::trainer {
namespace {

constexpr int kGraceMilliseconds = 1000;
constexpr int kPollMilliseconds = 5;

struct PipeEnds {
  Pipe read, write;
};

// Above the standard streams, which the child replaces one by one.
Pipe AboveStandard(Pipe pipe) {
  if (pipe.fd() > STDERR_FILENO) return pipe;
  return Pipe(::fcntl(pipe.fd(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

Result<PipeEnds> MakePipe(const std::string& program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return OutputError("make a pipe for", errno).in(program);
  PipeEnds pipe = {AboveStandard(Pipe(ends[0])), AboveStandard(Pipe(ends[1]))};
  if (!pipe.read.open() || !pipe.write.open())
    return OutputError("make a pipe for", errno).in(program);
  return pipe;
}

void DoNotBlock(const Pipe& pipe) {
  ::fcntl(pipe.fd(), F_SETFL, ::fcntl(pipe.fd(), F_GETFL) | O_NONBLOCK);
}

// Between fork and exec: only what may be called there. Reports errno through `report`.
[[noreturn]] void Become(const char* program, char* const* words, int in, int out, int err,
                         int report) {
  ::setpgid(0, 0);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::dup2(in, STDIN_FILENO) >= 0 && ::dup2(out, STDOUT_FILENO) >= 0 &&
      ::dup2(err, STDERR_FILENO) >= 0)
    ::execve(program, words, environ);
  const int failure = errno;
  if (::write(report, &failure, sizeof failure) < 0) ::_exit(126);
  ::_exit(127);
}

}  // namespace

Pipe::Pipe(Pipe&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Pipe& Pipe::operator=(Pipe&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void Pipe::Close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<std::unique_ptr<Child>> Child::Start(const std::string& program,
                                            const std::vector<std::string>& words) {
  NXDKIT_ASSIGN(PipeEnds in, MakePipe(program));
  NXDKIT_ASSIGN(PipeEnds out, MakePipe(program));
  NXDKIT_ASSIGN(PipeEnds err, MakePipe(program));
  NXDKIT_ASSIGN(PipeEnds report, MakePipe(program));
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return OutputError("start a process for", errno).in(program);
  if (pid == 0)
    Become(program.c_str(), pointers.data(), in.read.fd(), out.write.fd(), err.write.fd(),
           report.write.fd());
  ::setpgid(pid, pid);  // whichever of the two comes first
  std::unique_ptr<Child> child(new Child(pid));
  report.write.Close();
  int failure = 0;
  ssize_t got;
  do {
    got = ::read(report.read.fd(), &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got > 0)
    return Error(Errc::kNotFound, fmt::format("cannot start it: {}", std::strerror(failure)))
        .in(program);
  child->in = std::move(in.write);
  child->out = std::move(out.read);
  child->err = std::move(err.read);
  for (const Pipe* pipe : {&child->in, &child->out, &child->err}) DoNotBlock(*pipe);
  return child;
}

bool Child::HasEnded() const {
  if (reaped_) return true;
  siginfo_t info = {};
  const int failed = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  return failed == 0 && info.si_pid == pid_;
}

bool Child::WaitForEnd(int milliseconds) const {
  for (int waited = 0; waited < milliseconds; waited += kPollMilliseconds) {
    if (HasEnded()) return true;
    ::poll(nullptr, 0, kPollMilliseconds);
  }
  return HasEnded();
}

void Child::Reap() {
  // The zombie keeps the number of the group from being used again until here.
  ::kill(-pid_, SIGKILL);
  pid_t got;
  do {
    got = ::waitpid(pid_, &status_, 0);
  } while (got < 0 && errno == EINTR);
  reaped_ = true;
}

void Child::End() {
  if (reaped_) return;
  in.Close();
  if (!WaitForEnd(kGraceMilliseconds)) {
    ::kill(-pid_, SIGTERM);
    WaitForEnd(kGraceMilliseconds);
  }
  Reap();
}

void Child::Kill() {
  if (!reaped_) Reap();
}

std::string Child::EndText() const {
  if (WIFEXITED(status_)) return fmt::format("exited with {}", WEXITSTATUS(status_));
  return fmt::format("was ended by signal {}", WTERMSIG(status_));
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
    // The signal went to this thread: taken away before anybody sees it.
    const timespec now = {};
    while (::sigtimedwait(&pipe_signal, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = failure;
  return written;
}

}  // namespace nxdkit::trainer
