#include "formats/ops/command.h"

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
#include <chrono>
#include <cstring>

#include "lib/file.h"
#include "lib/text.h"

extern char** environ;

namespace nxdkit::ops {
namespace {

// What a compiler and its Python need to find themselves; no credentials, no settings of ours.
constexpr std::array<std::string_view, 15> kNames = {"PATH",
                                                     "HOME",
                                                     "USER",
                                                     "LOGNAME",
                                                     "LANG",
                                                     "LANGUAGE",
                                                     "TZ",
                                                     "TMPDIR",
                                                     "VIRTUAL_ENV",
                                                     "CONDA_PREFIX",
                                                     "LD_LIBRARY_PATH",
                                                     "HF_HOME",
                                                     "HF_HUB_OFFLINE",
                                                     "TRANSFORMERS_OFFLINE",
                                                     "XDG_CACHE_HOME"};
constexpr std::array<std::string_view, 2> kPrefixes = {"LC_", "NEURON_"};

constexpr size_t kShownLines = 12;
constexpr uint64_t kTailBytes = 16 << 10;
constexpr auto kGrace = std::chrono::seconds(5);
constexpr auto kReaping = std::chrono::seconds(1);
constexpr int kPollMilliseconds = 100;

// A descriptor that is closed with the object.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { Close(); }
  int fd() const { return fd_; }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// Between fork and exec: only what may be called there. Reports errno through `report`.
[[noreturn]] void Become(const char* program, char* const* words, char* const* environment, int log,
                         int report, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // not to go on alone when we are killed
  if (::getppid() != parent) ::_exit(127);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0 && ::dup2(nothing, STDIN_FILENO) >= 0 && ::dup2(log, STDOUT_FILENO) >= 0 &&
      ::dup2(log, STDERR_FILENO) >= 0)
    ::execve(program, words, environment);
  const int failure = errno;
  if (::write(report, &failure, sizeof failure) < 0) ::_exit(126);
  ::_exit(127);
}

// Waits for a change, a signal, or the time.
void WaitABit(int pidfd) {
  pollfd waiting{pidfd, POLLIN, 0};
  ::poll(&waiting, pidfd >= 0 ? 1 : 0, kPollMilliseconds);
}

// Whether it ended; its status then.
bool HasEnded(pid_t child, int* status) {
  pid_t got;
  do {
    got = ::waitpid(child, status, WNOHANG);
  } while (got < 0 && errno == EINTR);
  return got != 0;
}

// SIGTERM to all of the group; when its leader is gone or the time is over, SIGKILL to the rest.
// Returns when nothing of it runs any more (zombies of a system that does not reap them excepted).
void EndGroup(pid_t child, int pidfd) {
  ::kill(-child, SIGTERM);
  const auto until = std::chrono::steady_clock::now() + kGrace;
  int status = 0;
  bool ended = false;
  while (!ended && std::chrono::steady_clock::now() < until) {
    WaitABit(pidfd);
    ended = HasEnded(child, &status);
  }
  ::kill(-child, SIGKILL);
  while (!ended) {
    WaitABit(pidfd);
    ended = HasEnded(child, &status);
  }
  const auto gone = std::chrono::steady_clock::now() + kReaping;
  while (::kill(-child, 0) == 0 && std::chrono::steady_clock::now() < gone) ::poll(nullptr, 0, 1);
}

// The last lines of the log that say something.
std::vector<std::string> LastLines(const std::string& path) {
  std::vector<std::string> lines;
  const Result<File> file = File::OpenRead(path);
  if (!file.ok()) return lines;
  const uint64_t bytes = std::min(file->bytes(), kTailBytes);
  std::string tail(bytes, '\0');
  const auto to = std::as_writable_bytes(std::span(tail.data(), tail.size()));
  if (!file->ReadAt(file->bytes() - bytes, to).ok()) return lines;
  for (size_t at = 0; at < tail.size();) {
    const size_t end = std::min(tail.find_first_of("\r\n", at), tail.size());
    if (end > at) lines.push_back(tail.substr(at, end - at));
    at = end + 1;
  }
  if (lines.size() > kShownLines) lines.erase(lines.begin(), lines.end() - kShownLines);
  return lines;
}

bool IsExecutableFile(const std::string& path) {
  return KindOf(path) == PathKind::kFile && ::access(path.c_str(), X_OK) == 0;
}

Error CannotStart(const std::string& program, int failure) {
  return Error(Errc::kNotFound, fmt::format("cannot start it: {}", std::strerror(failure)))
      .in(program);
}

}  // namespace

std::optional<std::string> FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return IsExecutableFile(name) ? std::optional<std::string>(name) : std::nullopt;
  const char* path = std::getenv("PATH");
  std::string_view left = path == nullptr ? "" : path;
  while (!left.empty()) {
    const size_t end = std::min(left.find(':'), left.size());
    const std::string candidate = JoinPath(end == 0 ? "." : left.substr(0, end), name);
    if (IsExecutableFile(candidate)) return candidate;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return std::nullopt;
}

std::vector<std::string> CompilerEnvironment(const std::vector<std::string>& more) {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool passes =
        std::ranges::find(kNames, name) != kNames.end() ||
        std::ranges::find(more, name) != more.end() ||
        std::ranges::any_of(kPrefixes, [&](std::string_view p) { return name.starts_with(p); });
    if (passes) out.emplace_back(text);
  }
  std::ranges::sort(out);
  return out;
}

Result<CommandResult> RunCommand(const Command& command) {
  NXDKIT_CHECK(!command.words.empty());
  const std::optional<std::string> program = FindProgram(command.words[0]);
  if (!program)
    return Error(Errc::kNotFound, "no such program, or it may not be executed")
        .in(command.words[0]);
  const Descriptor log(
      ::open(command.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (log.fd() < 0) return OutputError("create", errno).in(command.log);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return OutputError("make a pipe for", errno).in(*program);
  const Descriptor report(ends[0]);
  Descriptor child_end(ends[1]);
  const std::vector<char*> words = Pointers(command.words);
  const std::vector<char*> environment = Pointers(command.environment);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return OutputError("start a process for", errno).in(*program);
  if (child == 0)
    Become(program->c_str(), words.data(), environment.data(), log.fd(), child_end.fd(), parent);
  ::setpgid(child, child);  // whichever of the two comes first
  child_end.Close();
  int failure = 0;
  ssize_t got;
  do {
    got = ::read(report.fd(), &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  int status = 0;
  if (got > 0) {
    while (!HasEnded(child, &status)) WaitABit(-1);
    return CannotStart(*program, failure);
  }
  // Without it (an old kernel) the waiting is by time alone.
  const Descriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  while (!HasEnded(child, &status)) {
    if (Status asked = command.poll ? command.poll() : OkStatus(); !asked.ok()) {
      EndGroup(child, pidfd.fd());
      return std::move(asked).error();
    }
    WaitABit(pidfd.fd());
  }
  // Ctrl-C reached the program and us: it counts as ours.
  if (command.poll) NXDKIT_TRY(command.poll());
  CommandResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.last_lines = LastLines(command.log);
  return result;
}

std::string CommandText(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("-_./=:,+@%", c);
    });
    if (!text.empty()) text += ' ';
    if (plain) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

Result<std::vector<std::string>> SplitCommand(const std::string& text) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\t' || c == '\n';
    if (quote == 0 && space) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
      if (!word) word.emplace();
    } else if (c == quote) {
      quote = 0;
    } else {
      if (!word) word.emplace();
      *word += c;
    }
  }
  if (quote != 0)
    return Error(Errc::kUsage, fmt::format("the quote {} in \"{}\" is not closed", quote, text));
  if (word) words.push_back(*word);
  if (words.empty()) return Error(Errc::kUsage, "an empty command");
  return words;
}

}  // namespace nxdkit::ops
