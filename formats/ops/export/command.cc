#include "formats/ops/export/command.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>

#include "lib/system/file.h"
#include "lib/system/process.h"

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
constexpr auto kPollEvery = std::chrono::milliseconds(100);

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

Result<Descriptor> OpenFor(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (!file.is_open()) return OutputError(flags & O_CREAT ? "create" : "open", errno).in(path);
  return file;
}

}  // namespace

std::vector<std::string> CompilerEnvironment(const std::vector<std::string>& more) {
  std::vector<std::string_view> names(kNames.begin(), kNames.end());
  names.insert(names.end(), more.begin(), more.end());
  std::vector<std::string> out = EnvironmentOf(names, kPrefixes);
  std::ranges::sort(out);
  return out;
}

Result<CommandResult> RunCommand(const Command& command) {
  NXDKIT_CHECK(!command.words.empty());
  const std::optional<std::string> program = FindProgram(command.words[0]);
  if (!program)
    return Error(Errc::kNotFound, "no such program, or it may not be executed")
        .in(command.words[0]);
  NXDKIT_ASSIGN(const Descriptor log,
                OpenFor(command.log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND));
  NXDKIT_ASSIGN(const Descriptor nothing, OpenFor("/dev/null", O_RDONLY));
  NXDKIT_ASSIGN(Process process, Process::Start({.program = *program,
                                                 .words = command.words,
                                                 .environment = command.environment,
                                                 .in = nothing.fd(),
                                                 .out = log.fd(),
                                                 .err = log.fd(),
                                                 .signal_with_parent = SIGTERM}));
  while (!process.WaitForEnd(kPollEvery)) {
    if (Status asked = command.poll ? command.poll() : OkStatus(); !asked.ok()) {
      process.End(kGrace);
      return std::move(asked).error();
    }
  }
  process.Kill();  // what it left running
  // The user may have interrupted while it ended.
  if (command.poll) NXDKIT_TRY(command.poll());
  return CommandResult{process.exit_code(), LastLines(command.log)};
}

}  // namespace nxdkit::ops
