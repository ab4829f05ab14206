#include "formats/ops/precompile/compiler_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <utility>

#include "formats/compile_cache/entry_files.h"
#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

constexpr char kStreamsFile[] = "streams.txt";
constexpr char kLogFile[] = "log-neuron-cc.txt";
constexpr uint64_t kMostKeptBytes = 4 << 20;
constexpr int kGaveUpCode = 70;
constexpr int kNotExecutable = 126;  // of a shell
constexpr int kNotThere = 127;
constexpr int kSignals = 128;
constexpr int kMostSignal = 64;  // Python's sys.exit(-1) is 255, not a signal
constexpr uint64_t kLeastRoom = 1 << 20;
constexpr char kRoomFile[] = "room";

// The end of a log; "" if there is none.
std::string EndOf(const std::string& path) {
  const Result<std::string> text = ReadEnd(path, kMostKeptBytes);
  return text.ok() ? *text : "";
}

Result<Descriptor> Open(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (!file.is_open()) return OutputError("open", errno).in(path);
  return file;
}

// Whether there is room for more in the work folder. On a full disk a compiler cannot report that
// it is full.
bool HasRoom(const std::string& folder) {
  const Result<File> file = File::OpenWrite(JoinPath(folder, kRoomFile));
  return file.ok() && file->Allocate(kLeastRoom).ok();
}

bool Says(std::string_view log, std::string_view words) {
  return log.find(words) != std::string_view::npos;
}

bool SaysAny(std::string_view log, std::initializer_list<std::string_view> texts) {
  return std::ranges::any_of(texts, [&](std::string_view text) { return Says(log, text); });
}

bool SaysFull(std::string_view log) {
  return SaysAny(log, {"No space left on device", "Disk quota exceeded"});
}
bool SaysMemory(std::string_view log) {
  return SaysAny(log, {"[F137]", "std::bad_alloc", "MemoryError", "Cannot allocate memory"});
}
bool SaysBroken(std::string_view log) {
  return SaysAny(log,
                 {"ModuleNotFoundError", "ImportError", "error while loading shared libraries"});
}

}  // namespace

Result<CompilerRun> CompilerRun::Start(const GraphCompiler& compiler, const neff::Graph& graph,
                                       const std::string& target, const std::string& work_parent) {
  NXDKIT_ASSIGN(ScratchFolder work, ScratchFolder::Make(work_parent, kWorkFolder));
  const std::string stem = "model." + BaseName(graph.name);
  const CompilePaths paths = {.graph = JoinPath(work.path(), stem + ".hlo_module.pb"),
                              .neff = JoinPath(work.path(), stem + ".neff"),
                              .log = JoinPath(work.path(), kLogFile)};
  NXDKIT_TRY(neff::WriteGraph(graph, paths.graph));
  NXDKIT_ASSIGN(const Descriptor streams,
                Open(JoinPath(work.path(), kStreamsFile), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND));
  NXDKIT_ASSIGN(const Descriptor nothing, Open("/dev/null", O_RDONLY));
  NXDKIT_ASSIGN(Process process,
                Process::Start({.program = compiler.command[0],
                                .words = CompileWords(compiler, graph, target, paths),
                                .environment = EnvironmentOfCompiler(WholeEnvironment()),
                                .in = nothing.fd(),
                                .out = streams.fd(),
                                .err = streams.fd(),
                                .folder = work.path(),
                                .signal_with_parent = SIGKILL}));
  std::optional<Keeper> keeper = Keeper::Start(process);
  return CompilerRun(std::move(work), stem, std::move(process), std::move(keeper));
}

std::string CompilerRun::neff() const { return JoinPath(work_.path(), stem_ + ".neff"); }

std::string CompilerRun::Log() const {
  const std::string own = EndOf(JoinPath(work_.path(), kLogFile));
  const std::string streams = EndOf(JoinPath(work_.path(), kStreamsFile));
  return own.empty() || Says(streams, own) ? streams : own + "\n" + streams;
}

void CompilerRun::EndNow() {
  has_timed_out_ = !process_.HasEnded();
  process_.Kill();  // others run too, and wait for us
}

Result<CompilerOutcome> CompilerRun::Finish() {
  CompilerOutcome outcome;
  outcome.seconds = watch_.Seconds();
  process_.Kill();  // with processes that it left running
  outcome.log = Log();
  return Judge(process_.exit_code(), std::move(outcome));
}

Result<CompilerOutcome> CompilerRun::Judge(int exit_code, CompilerOutcome outcome) const {
  const auto with = [&](CompilerEnd end, std::string message) {
    outcome.end = end;
    outcome.message = std::move(message);
    return std::move(outcome);
  };
  const std::string line = TellingLine(outcome.log);
  if (has_timed_out_)
    return with(CompilerEnd::kTimedOut, fmt::format("it ran for {:.0f} s", outcome.seconds));
  if (SaysFull(outcome.log)) return with(CompilerEnd::kDiskIsFull, line);
  if (exit_code == 0) {
    const Result<std::vector<std::string>> faults = neff::NeffFaults(neff(), {});
    // Failure to read it is not a failure of the graph.
    if (!faults.ok() && faults.error().code() == Errc::kIo) return faults.error();
    if (faults.ok() && faults->empty()) return with(CompilerEnd::kDone, "");
    return with(CompilerEnd::kGaveUp,
                "it ended with 0 but left no complete NEFF: " +
                    (faults.ok() ? faults->front() : faults.error().message()));
  }
  const std::string how = process_.EndText();
  const std::string message = line.empty() ? "it " + how : fmt::format("it {}: {}", how, line);
  if (!HasRoom(work_.path()))
    return with(CompilerEnd::kDiskIsFull, "its work folder is full: " + message);
  const bool by_signal = exit_code > kSignals && exit_code <= kSignals + kMostSignal;
  if (by_signal || SaysMemory(outcome.log)) return with(CompilerEnd::kKilled, message);
  const bool no_program = exit_code == kNotExecutable || exit_code == kNotThere;
  if (no_program || SaysBroken(outcome.log)) return with(CompilerEnd::kCannotRun, message);
  return with(exit_code == kGaveUpCode ? CompilerEnd::kExit70 : CompilerEnd::kGaveUp, message);
}

}  // namespace nxdkit::ops
