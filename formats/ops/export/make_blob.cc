#include "formats/ops/export/make_blob.h"
#include "formats/kinds/builder.h"
#include "formats/kinds/decide.h"
#include "formats/kinds/open.h"
#include "formats/kinds/rollout/decide_rollout.h"

#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>

#include "formats/compile_cache/slot.h"
#include "formats/ops/export/compile.h"
#include "formats/ops/verify/blob.h"
#include "lib/base/errors.h"
#include "lib/base/stopwatch.h"
#include "lib/system/command_text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

constexpr uint64_t kMaxLogBytes = 64 << 20;
// The prefix of the last line of a remembered failure.
constexpr std::string_view kReason = "neuron-export: ";

// A folder that is removed with the object.
class WorkFolder {
 public:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder() { (void)RemoveTree(path_).ok(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Another compiler, or other options for it, make other blobs.
Result<std::vector<std::string>> KeyFlags(const ExportRequest& request) {
  std::vector<std::string> flags = request.cache.flags;
  if (!request.compiler) return flags;
  NXDKIT_ASSIGN(const std::vector<std::string> words, SplitCommand(*request.compiler));
  if (words == std::vector<std::string>{kOptimumCompiler}) return flags;  // as without the option
  flags.emplace_back("--compiler");
  flags.insert(flags.end(), words.begin(), words.end());
  return flags;
}

struct Making {
  const WantedBlob& wanted;
  const std::vector<std::string>& command;
  ExportReport& report;
};

Status RunCompiler(const Making& making, const std::string& output, const std::string& log) {
  const auto& [wanted, command, report] = making;
  const ConvertRequest& convert = wanted.request.convert;
  Command run;
  run.words = CompilerWords(command, {convert.input, wanted.neuron, output});
  run.environment = CompilerEnvironment(wanted.request.environment);
  if (const std::string& target = wanted.request.target.pass; !target.empty())
    run.environment.push_back(fmt::format("{}={}", kTargetVariable, target));
  run.log = log;
  run.poll = convert.run.poll;
  report.command = CommandText(run.words);
  wanted.Detail("running " + report.command + "; its output goes to " + log);
  if (convert.run.begin) convert.run.begin("compiling", 0);
  const Stopwatch watch;
  NXDKIT_ASSIGN(const CommandResult result, RunCommand(run));
  report.compile_seconds = watch.Seconds();
  if (result.exit_code == 0) return OkStatus();
  for (const std::string& line : result.last_lines) wanted.Warn("compiler: " + line);
  return Unsupported("the compiler ended with exit code {}: {}", result.exit_code, report.command)
      .in(log);
}

// Runs the compiler; returns the files to keep of its bundle. kUnsupported if it fails, and if its
// output is not a complete bundle that fits; the shards that it may have made are compared too.
Result<std::vector<std::string>> CompileBundle(const Making& making, const std::string& output,
                                               const std::string& log) {
  NXDKIT_TRY(RunCompiler(making, output, log));
  NXDKIT_ASSIGN(std::vector<std::string> names, CompiledFiles(output));
  const Status fits = CheckFits(making.wanted, output);
  if (fits.ok()) return names;
  const Error& error = fits.error();
  if (!IsOfTheBundle(error)) return error;
  return Unsupported("the compiler's output does not fit: {}{}{}", error.tensor(),
                     error.tensor().empty() ? "" : ": ", error.message())
      .in(log);
}

Result<bool> IsGood(const WantedBlob& wanted, const neff::CacheEntry& entry) {
  if (entry.state != neff::EntryState::kDone) return false;
  NXDKIT_ASSIGN(const auto faults, neff::VerifyEntry(entry, wanted.request.convert.run.poll));
  if (!faults.empty()) return false;
  Status fits = CheckFits(wanted, entry.path);
  if (fits.ok()) return true;
  if (IsOfTheBundle(fits.error())) return false;
  return std::move(fits).error();
}

Error FailedBefore(const neff::CacheSlot& slot) {
  const std::string path = JoinPath(slot.path(), neff::kFailureFile);
  const Result<std::string> log = ReadSmallFile(path, kMaxLogBytes);
  // nxdkit's own reason is the last line.
  const size_t at = log.ok() ? log->rfind(kReason) : std::string::npos;
  const std::string reason =
      at == std::string::npos
          ? ""
          : fmt::format(" ({})", log->substr(at + kReason.size(),
                                             log->find('\n', at) - at - kReason.size()));
  return Unsupported("the compile cache remembers that compiling this failed{}; the log is here",
                     reason)
      .in(path)
      .hint("--retry-failed-compilation compiles it again");
}

// Turns the entry into a remembered failure; the error names its log.
Error Remember(const neff::CacheKey& key, neff::CacheSlot& slot, const std::string& log,
               const Error& error) {
  Result<std::string> text = ReadSmallFile(log, kMaxLogBytes);
  std::string whole = text.ok() ? *std::move(text) : "the log is too long\n";
  if (!whole.empty() && whole.back() != '\n') whole += '\n';
  whole += fmt::format("{}{}\n", kReason, error.message());
  NXDKIT_TRY(slot.Fail(key, whole));
  return Error(error.code(), error.message())
      .in(JoinPath(slot.path(), neff::kFailureFile))
      .hint("--retry-failed-compilation compiles it again once the cause is fixed");
}

void MakeRoom(const WantedBlob& wanted) {
  const std::string& cache = wanted.request.cache.root;
  neff::PruneOptions limits = wanted.request.limits;
  limits.failed = limits.stale_locks = false;
  const Result<neff::PruneReport> pruned = neff::Prune(cache, limits);
  if (!pruned.ok())
    wanted.Warn("the compile cache cannot be pruned: " + pruned.error().ToString());
  else if (pruned->over_limit_bytes > 0)
    wanted.Warn(fmt::format(
        "the compile cache {} is {} bytes over its limit: everything in it is in use or was used "
        "lately",
        cache, pruned->over_limit_bytes));
}

Result<neff::CacheSlot> CompileIntoCache(const Making& making) {
  const WantedBlob& wanted = making.wanted;
  const ExportRequest& request = wanted.request;
  const neff::Poll& poll = request.convert.run.poll;
  NXDKIT_ASSIGN(neff::CacheSlot slot,
                neff::CacheSlot::Make(
                    request.cache.root,
                    wanted.cache_folder.empty() ? neff::kUnknownCompiler : wanted.cache_folder,
                    wanted.key.module, poll));
  if (slot.entry().state == neff::EntryState::kFailed && !request.cache.retry_failed)
    return FailedBefore(slot);
  // Another process may have made it while this one waited.
  NXDKIT_ASSIGN(const bool done, IsGood(wanted, slot.entry()));
  if (done) return slot;
  NXDKIT_TRY(slot.Begin());
  const WorkFolder work(JoinPath(slot.path(), "work"));
  const std::string log = JoinPath(slot.path(), "log-neuron-cc.txt");
  const Result<std::vector<std::string>> files = CompileBundle(making, work.path(), log);
  if (!files.ok() && files.error().code() == Errc::kUnsupported)
    return Remember(wanted.key, slot, log, files.error());
  Status made = files.ok() ? MoveFiles(*files, work.path(), slot.path()) : Status(files.error());
  if (!made.ok()) {
    NXDKIT_TRY(slot.Empty());
    return std::move(made).error();
  }
  (void)RemoveTree(work.path()).ok();
  NXDKIT_TRY(slot.Finish(wanted.key, wanted.summary, poll, making.report.compile_seconds));
  MakeRoom(wanted);
  return slot;
}

Result<FoundBlob> CompileAside(const Making& making) {
  std::string folder = making.wanted.request.convert.output;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  const std::string log = folder + ".compile.log";
  folder += ".compile-XXXXXX";
  (void)MakeFolders(ParentPath(folder)).ok();  // mkdtemp reports a failure
  if (::mkdtemp(folder.data()) == nullptr) return OutputError("make a folder", errno).in(folder);
  auto work = std::make_shared<const WorkFolder>(folder);
  const std::string bundle = JoinPath(folder, "bundle");
  NXDKIT_TRY(CompileBundle(making, bundle, log));
  ::unlink(log.c_str());
  return FoundBlob{BlobOrigin::kCompiler, bundle, std::move(work)};
}

}  // namespace

Result<WantedBlob> DecideBlob(const ExportRequest& request) {
  const ConvertRequest& convert = request.convert;
  WantedBlob wanted{request, {}, {}, {}, {}, {}};
  NXDKIT_ASSIGN(wanted.source, OpenAndBind(convert.input, convert.from, convert.hints));
  NXDKIT_ASSIGN(const std::unique_ptr<Output> target,
                DecideOutput(wanted.source, kRollout, convert.options));
  const rollout::NeuronConfig& neuron = wanted.neuron = AsRollout(*target)->neuron;
  const models::ModelConfig& model = wanted.source.model->config;
  NXDKIT_ASSIGN(const std::vector<std::string> flags, KeyFlags(request));
  wanted.key = neff::MakeKey(
      GraphText(wanted.source.artifact.config_text, neuron, model, request.target.name), flags);
  wanted.summary =
      fmt::format("{}, {} layers, hidden {}, tp {}, batch size {}, sequence length {}, {}",
                  model.model_type, model.layers, model.hidden, neuron.tp, neuron.batch_size,
                  neuron.sequence_length, neuron.torch_dtype);
  if (!request.cache.enabled) return wanted;
  NXDKIT_ASSIGN(const std::string version, CompilerVersion(convert.run.poll));
  if (!version.empty()) wanted.cache_folder = "neuronxcc-" + version;
  return wanted;
}

Status CheckFits(const WantedBlob& wanted, const std::string& folder) {
  const ConvertRequest& convert = wanted.request.convert;
  OutputOptions options = convert.options;
  options.Set("bundle", folder);
  // Values that nobody gave were decided, and the blob has to be compiled for them.
  options.Set("tp", static_cast<int>(wanted.neuron.tp));
  options.Set("bs", static_cast<int>(wanted.neuron.batch_size));
  options.Set("seq", static_cast<int>(wanted.neuron.sequence_length));
  options.dtype = DtypeFromTorchName(wanted.neuron.torch_dtype);
  // Other versions than the user wants are not a fault of the blob: the conversion reports them.
  options.Reset("optimum-version");
  options.Reset("compiler-version");
  NXDKIT_ASSIGN(const std::unique_ptr<Output> target,
                DecideOutput(wanted.source, kRollout, options));
  NXDKIT_TRY(PlanOutput(wanted.source, *target, BaseName(convert.output), convert.run.max_memory));
  return RequireBlobs(*AsRollout(*target)->bundle, convert.run.poll);
}

bool IsOfTheBundle(const Error& error) {
  return error.code() == Errc::kUsage || error.code() == Errc::kUnsupported ||
         error.code() == Errc::kCorrupt || error.code() == Errc::kNotFound;
}

Result<FoundBlob> MakeBlob(const WantedBlob& wanted, const std::vector<std::string>& command,
                           ExportReport& report) {
  const Making making{wanted, command, report};
  if (!wanted.request.cache.enabled) return CompileAside(making);
  NXDKIT_ASSIGN(neff::CacheSlot slot, CompileIntoCache(making));
  const bool ran = !report.command.empty();
  if (!ran) report.compile_seconds = slot.CompileSeconds();
  return FoundBlob{ran ? BlobOrigin::kCompiler : BlobOrigin::kCache, slot.path(),
                   std::make_shared<const neff::CacheSlot>(std::move(slot))};
}

}  // namespace nxdkit::ops
