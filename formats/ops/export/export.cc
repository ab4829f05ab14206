#include "formats/kinds/open.h"
#include "formats/ops/export/export.h"

#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "formats/compile_cache/slot.h"
#include "formats/ops/convert/standing.h"
#include "formats/ops/export/compile.h"
#include "formats/ops/verify/blob.h"
#include "lib/base/errors.h"
#include "lib/system/command_text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/process.h"

namespace nxdkit::ops {
namespace {

constexpr char kCompiler[] = "optimum-cli";
constexpr uint64_t kMaxLogBytes = 64 << 20;
// Begins the last line of a remembered failure.
constexpr std::string_view kReason = "neuron-export: ";

// A folder that goes with the object.
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

class Exporter {
 public:
  explicit Exporter(const ExportRequest& request) : request_(request), convert_(request.convert) {}

  Result<ExportReport> Run() {
    if (request_.cpu) {
      convert_.options.cpu_plan = true;
      return Finish(BlobOrigin::kCpuPlan, "");
    }
    if (convert_.options.bundle) return Finish(BlobOrigin::kBundle, *convert_.options.bundle);
    NXDKIT_TRY(Decide());
    NXDKIT_ASSIGN(std::optional<neff::CacheSlot> slot, AskCache());
    if (slot) return FinishFrom(*slot, BlobOrigin::kCache);
    NXDKIT_ASSIGN(const bool stands, FindsOutput(convert_));
    if (stands) return FinishStanding();
    NXDKIT_ASSIGN(const std::vector<std::string> command, FindCompiler());
    const Status sampling = command.empty() ? OkStatus() : CheckSampling(command);
    if (!sampling.ok()) return Without(sampling.error());
    if (!command.empty()) return request_.dry_run ? WouldCompile(command) : Compile(command);
    if (request_.no_blob) return Finish(BlobOrigin::kNone, "");
    return NoBlob();
  }

 private:
  // What would be compiled: the layout as it is decided without a bundle.
  Status Decide() {
    NXDKIT_ASSIGN(source_, OpenAndBind(convert_.input, convert_.from, convert_.hints));
    NXDKIT_ASSIGN(const OutputSpec spec, DecideOutput(source_, Kind::kRollout, convert_.options));
    neuron_ = spec.neuron;
    const models::ModelConfig& model = source_.model->config;
    NXDKIT_ASSIGN(const std::vector<std::string> flags, KeyFlags());
    key_ = neff::MakeKey(GraphText(source_.artifact.config_text, neuron_, model), flags);
    summary_ = fmt::format("{}, {} layers, hidden {}, tp {}, batch size {}, sequence length {}, {}",
                           model.model_type, model.layers, model.hidden, neuron_.tp,
                           neuron_.batch_size, neuron_.sequence_length, neuron_.torch_dtype);
    if (request_.cache.enabled) report_.cache_entry = key_.module;
    return OkStatus();
  }

  // Another compiler, or other options of it, make other blobs.
  Result<std::vector<std::string>> KeyFlags() const {
    std::vector<std::string> flags = request_.cache.flags;
    if (!request_.compiler) return flags;
    NXDKIT_ASSIGN(const std::vector<std::string> words, SplitCommand(*request_.compiler));
    if (words == std::vector<std::string>{kCompiler}) return flags;  // as without the option
    flags.emplace_back("--compiler");
    flags.insert(flags.end(), words.begin(), words.end());
    return flags;
  }

  Result<std::optional<neff::CacheSlot>> AskCache() {
    if (!request_.cache.enabled) {
      Detail("the compile cache is not asked: " + request_.cache.disabled_because);
      return std::optional<neff::CacheSlot>();
    }
    NXDKIT_ASSIGN(const std::string version, CompilerVersion(convert_.run.poll));
    if (!version.empty()) cache_folder_ = "neuronxcc-" + version;
    Result<std::optional<neff::CacheSlot>> slot =
        neff::CacheSlot::Use(request_.cache.root, cache_folder_, key_.module, convert_.run.poll);
    Status usable = slot.ok() ? OkStatus() : Status(slot.error());
    if (slot.ok() && *slot) usable = CheckFits((*slot)->path());
    if (usable.ok() || !IsOfTheBundle(usable.error())) {
      NXDKIT_TRY(std::move(usable));
      return slot;
    }
    Warn("the entry in the compile cache is passed over: " + usable.error().ToString());
    return std::optional<neff::CacheSlot>();
  }

  // A bundle of the cache or of the compiler against what was asked for and the model.
  Status CheckFits(const std::string& folder) const {
    OutputOptions options = convert_.options;
    options.bundle = folder;
    // What nobody named was decided, and that is what the blob has to be compiled for.
    options.tp = static_cast<int>(neuron_.tp);
    options.batch_size = neuron_.batch_size;
    options.sequence_length = neuron_.sequence_length;
    options.dtype = DtypeFromTorchName(neuron_.torch_dtype);
    // That the user wants others is no fault of the blob: the conversion says that they differ.
    options.optimum_version.reset();
    options.compiler_version.reset();
    NXDKIT_ASSIGN(const OutputSpec spec, DecideOutput(source_, Kind::kRollout, options));
    NXDKIT_TRY(PlanOutput(source_, spec, BaseName(convert_.output), convert_.run.max_memory));
    return RequireBlobs(*spec.bundle, convert_.run.poll);
  }

  // What is wrong with it, rather than with the system.
  static bool IsOfTheBundle(const Error& error) {
    return error.code() == Errc::kUsage || error.code() == Errc::kUnsupported ||
           error.code() == Errc::kCorrupt || error.code() == Errc::kNotFound;
  }

  Result<std::vector<std::string>> FindCompiler() const {
    std::vector<std::string> words;
    if (request_.compiler) {
      NXDKIT_ASSIGN(words, SplitCommand(*request_.compiler));
      if (!FindProgram(words[0]))
        return NotFound("no such program, or it may not be executed").in(words[0]);
    } else if (neuron_.flavor == rollout::Flavor::kOptimum && FindProgram(kCompiler)) {
      words = {kCompiler};
    }
    return words;
  }

  // Where the compiler decides by itself, a wish that differs would be found out an hour later.
  Status CheckSampling(const std::vector<std::string>& command) const {
    if (!convert_.options.on_device_sampling || IsToldOfSampling(command)) return OkStatus();
    OutputOptions options = convert_.options;
    options.on_device_sampling.reset();
    NXDKIT_ASSIGN(const OutputSpec spec, DecideOutput(source_, Kind::kRollout, options));
    if (spec.neuron.on_device_sampling == neuron_.on_device_sampling) return OkStatus();
    return Unsupported("the compiler {} cannot be told whether to sample on the device", command[0])
        .hint("--compiler takes a command with {output} and {sampling}, which is device or host");
  }

  Error NoBlob() const {
    std::string looked = request_.cache.enabled ? fmt::format("the compile cache {} has no {}",
                                                              request_.cache.root, key_.module)
                                                : "the compile cache is not asked";
    return Unsupported("no compiled blob was found: {}, and there is no {}", looked,
                       neuron_.flavor == rollout::Flavor::kOptimum
                           ? "optimum-cli in PATH"
                           : "compiler for NxDI bundles (--compiler)")
        .hint(
            "take one with --bundle, name a compiler with --compiler, use --target cpu for our "
            "own engine, or --no-blob for the weights alone");
  }

  Result<ExportReport> Finish(BlobOrigin origin, std::string path) {
    source_ = {};  // opened again by the conversion, whose buffers get what memory is left
    NXDKIT_ASSIGN(report_.convert, request_.dry_run ? DryRun(convert_) : Convert(convert_));
    report_.blob = origin;
    report_.blob_path = std::move(path);
    return std::move(report_);
  }

  // The slot stays locked meanwhile.
  Result<ExportReport> FinishFrom(const neff::CacheSlot& slot, BlobOrigin origin) {
    convert_.options.bundle = slot.path();
    return Finish(origin, slot.path());
  }

  // The command is repeated, and what it compiled is in the output's place: that blob is the
  // one to compare with, as far as it is whole and fits. No compiler runs for it, and none is
  // needed.
  Result<ExportReport> FinishStanding() {
    const std::string& standing = convert_.output;
    const Status fits = CheckFits(standing);
    if (fits.ok()) {
      convert_.options.bundle = standing;
      return Finish(BlobOrigin::kBundle, standing);
    }
    const Error& error = fits.error();
    if (error.code() == Errc::kNotFound && request_.no_blob) return Finish(BlobOrigin::kNone, "");
    if (!IsOfTheBundle(error)) return error;
    return InTheWay(standing, error);
  }

  Result<ExportReport> WouldCompile(const std::vector<std::string>& command) {
    report_.command = CommandText(
        CompilerWords(command, {convert_.input, neuron_, convert_.output + ".compile"}));
    return Finish(BlobOrigin::kCompiler, "");
  }

  Result<ExportReport> Compile(const std::vector<std::string>& command) {
    // What a conversion would refuse is refused before the compiler runs for an hour.
    NXDKIT_TRY(DryRun(convert_));
    if (request_.cache.enabled) {
      const Result<neff::CacheSlot> slot = CompileIntoCache(command);
      if (!slot.ok()) return Without(slot.error());
      return FinishFrom(*slot, BlobOrigin::kCompiler);
    }
    const Result<std::unique_ptr<WorkFolder>> work = CompileAside(command);
    if (!work.ok()) return Without(work.error());
    convert_.options.bundle = Made(**work);
    return Finish(BlobOrigin::kCompiler, "");
  }

  // No blob could be compiled.
  Result<ExportReport> Without(const Error& error) {
    if (!request_.no_blob || error.code() != Errc::kUnsupported) return error;
    Warn("there is no compiled blob: " + error.ToString());
    return Finish(BlobOrigin::kNone, "");
  }

  Result<neff::CacheSlot> CompileIntoCache(const std::vector<std::string>& command) {
    NXDKIT_ASSIGN(
        neff::CacheSlot slot,
        neff::CacheSlot::Make(request_.cache.root,
                              cache_folder_.empty() ? neff::kUnknownCompiler : cache_folder_,
                              key_.module, convert_.run.poll));
    if (slot.entry().state == neff::EntryState::kFailed && !request_.cache.retry_failed)
      return FailedBefore(slot);
    // Another process may have made it while we waited.
    NXDKIT_ASSIGN(const bool done, IsGood(slot.entry()));
    if (done) return slot;
    NXDKIT_TRY(slot.Begin());
    const WorkFolder work(JoinPath(slot.path(), "work"));
    const std::string log = JoinPath(slot.path(), "log-neuron-cc.txt");
    const Result<std::vector<std::string>> files = MakeBundle(command, work.path(), log);
    if (!files.ok() && files.error().code() == Errc::kUnsupported)
      return Remember(slot, log, files.error());
    Status made = files.ok() ? MoveFiles(*files, work.path(), slot.path()) : Status(files.error());
    if (!made.ok()) {
      NXDKIT_TRY(slot.Empty());
      return std::move(made).error();
    }
    (void)RemoveTree(work.path()).ok();
    NXDKIT_TRY(slot.Finish(key_, summary_, convert_.run.poll));
    MakeRoom();
    return slot;
  }

  Result<bool> IsGood(const neff::CacheEntry& entry) const {
    if (entry.state != neff::EntryState::kDone) return false;
    NXDKIT_ASSIGN(const auto faults, neff::VerifyEntry(entry, convert_.run.poll));
    if (!faults.empty()) return false;
    Status fits = CheckFits(entry.path);
    if (fits.ok()) return true;
    if (IsOfTheBundle(fits.error())) return false;
    return std::move(fits).error();
  }

  Error FailedBefore(const neff::CacheSlot& slot) const {
    const std::string path = JoinPath(slot.path(), neff::kFailureFile);
    const Result<std::string> log = ReadSmallFile(path, kMaxLogBytes);
    // Our own word is the last line.
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

  // The entry becomes a remembered failure; the error names its log.
  Error Remember(neff::CacheSlot& slot, const std::string& log, const Error& error) {
    Result<std::string> text = ReadSmallFile(log, kMaxLogBytes);
    std::string whole = text.ok() ? *std::move(text) : "the log is too long\n";
    if (!whole.empty() && whole.back() != '\n') whole += '\n';
    whole += fmt::format("{}{}\n", kReason, error.message());
    const Status kept = slot.Fail(key_, whole);
    if (!kept.ok()) return kept.error();
    return Error(error.code(), error.message())
        .in(JoinPath(slot.path(), neff::kFailureFile))
        .hint("--retry-failed-compilation compiles it again once the cause is fixed");
  }

  static std::string Made(const WorkFolder& work) { return JoinPath(work.path(), "bundle"); }

  // Goes with the folder that is returned.
  Result<std::unique_ptr<WorkFolder>> CompileAside(const std::vector<std::string>& command) {
    std::string folder = convert_.output;
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
    const std::string log = folder + ".compile.log";
    folder += ".compile-XXXXXX";
    (void)MakeFolders(ParentPath(folder)).ok();  // mkdtemp tells when that failed
    if (::mkdtemp(folder.data()) == nullptr) return OutputError("make a folder", errno).in(folder);
    auto work = std::make_unique<WorkFolder>(folder);
    NXDKIT_TRY(MakeBundle(command, Made(*work), log));
    ::unlink(log.c_str());
    return work;
  }

  // Runs the compiler; names what is to be kept of its bundle. kUnsupported when it fails, and when
  // what it leaves is no whole bundle that fits; the shards that it may have made are compared too.
  Result<std::vector<std::string>> MakeBundle(const std::vector<std::string>& command,
                                              const std::string& output, const std::string& log) {
    NXDKIT_TRY(RunCompiler(command, output, log));
    NXDKIT_ASSIGN(std::vector<std::string> names, CompiledFiles(output));
    const Status fits = CheckFits(output);
    if (fits.ok()) return names;
    const Error& error = fits.error();
    if (!IsOfTheBundle(error)) return error;
    return Unsupported("what the compiler made does not fit: {}{}{}", error.tensor(),
                       error.tensor().empty() ? "" : ": ", error.message())
        .in(log);
  }

  Status RunCompiler(const std::vector<std::string>& command, const std::string& output,
                     const std::string& log) {
    Command run;
    run.words = CompilerWords(command, {convert_.input, neuron_, output});
    run.environment = CompilerEnvironment(request_.environment);
    run.log = log;
    run.poll = convert_.run.poll;
    report_.command = CommandText(run.words);
    Detail("running " + report_.command + "; its output goes to " + log);
    if (convert_.run.begin) convert_.run.begin("compiling", 0);
    NXDKIT_ASSIGN(const CommandResult result, RunCommand(run));
    if (result.exit_code == 0) return OkStatus();
    for (const std::string& line : result.last_lines) Warn("compiler: " + line);
    return Unsupported("the compiler ended with exit code {}: {}", result.exit_code,
                       report_.command)
        .in(log);
  }

  void MakeRoom() const {
    neff::PruneOptions limits = request_.limits;
    limits.failed = limits.stale_locks = false;
    const Result<neff::PruneReport> pruned = neff::Prune(request_.cache.root, limits);
    if (!pruned.ok())
      Warn("the compile cache cannot be pruned: " + pruned.error().ToString());
    else if (pruned->over_limit_bytes > 0)
      Warn(fmt::format(
          "the compile cache {} is {} bytes over its limit: everything in it is in use or was used "
          "lately",
          request_.cache.root, pruned->over_limit_bytes));
  }

  void Warn(const std::string& text) const {
    if (request_.on_warning) request_.on_warning(text);
  }
  void Detail(const std::string& text) const {
    if (request_.on_detail) request_.on_detail(text);
  }

  const ExportRequest& request_;
  ConvertRequest convert_;
  BoundArtifact source_;  // as Decide found it: what blobs are held against
  rollout::NeuronConfig neuron_;
  neff::CacheKey key_;
  std::string cache_folder_;  // of the compiler that is installed; "" when none tells its version
  std::string summary_;
  ExportReport report_;
};

}  // namespace

std::string_view BlobOriginName(BlobOrigin origin) {
  constexpr std::array<std::string_view, 5> kNames = {"bundle", "cache", "compiler", "cpu_plan",
                                                      "none"};
  return kNames[static_cast<size_t>(origin)];
}

Result<ExportReport> Export(const ExportRequest& request) { return Exporter(request).Run(); }

}  // namespace nxdkit::ops
