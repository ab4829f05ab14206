#include "formats/ops/export.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "formats/neff/cache_slot.h"
#include "formats/ops/command.h"
#include "formats/ops/compile.h"
#include "lib/command_text.h"
#include "lib/file.h"
#include "lib/json.h"
#include "lib/process.h"

namespace nxdkit::ops {
namespace {

namespace fs = std::filesystem;

constexpr char kCompiler[] = "optimum-cli";
constexpr uint64_t kMaxLogBytes = 64 << 20;

// Keys of a config.json that change nothing in a graph.
constexpr std::array<std::string_view, 14> kOutsideOfGraph = {"_name_or_path",
                                                              "transformers_version",
                                                              "_diffusers_version",
                                                              "eos_token_id",
                                                              "bos_token_id",
                                                              "pad_token_id",
                                                              "torchscript",
                                                              "torch_dtype",
                                                              "dtype",
                                                              "_commit_hash",
                                                              "use_cache",
                                                              "return_dict",
                                                              "_attn_implementation_autoset",
                                                              "initializer_range"};

// A folder that goes with the object.
class WorkFolder {
 public:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
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
    NXDKIT_ASSIGN(const std::vector<std::string> command, FindCompiler());
    if (!command.empty()) return request_.dry_run ? WouldCompile(command) : Compile(command);
    if (request_.no_blob) return Finish(BlobOrigin::kNone, "");
    return NoBlob();
  }

 private:
  // What would be compiled: the layout as it is decided without a bundle.
  Status Decide() {
    NXDKIT_ASSIGN(const BoundArtifact source,
                  OpenAndBind(convert_.input, convert_.from, convert_.hints));
    NXDKIT_ASSIGN(const OutputSpec spec, DecideOutput(source, Kind::kRollout, convert_.options));
    neuron_ = spec.neuron;
    const models::ModelConfig& model = source.model->config;
    key_ =
        neff::MakeKey(GraphText(source.artifact.config_text, neuron_, model), request_.cache.flags);
    summary_ = fmt::format("{}, {} layers, hidden {}, tp {}, batch size {}, sequence length {}, {}",
                           model.model_type, model.layers, model.hidden, neuron_.tp,
                           neuron_.batch_size, neuron_.sequence_length, neuron_.torch_dtype);
    if (request_.cache.enabled) report_.cache_entry = key_.module;
    return OkStatus();
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
    if (slot.ok() || slot.error().code() != Errc::kCorrupt) return slot;
    if (request_.on_warning)
      request_.on_warning("the entry in the compile cache is passed over: " +
                          slot.error().ToString());
    return std::optional<neff::CacheSlot>();
  }

  Result<std::vector<std::string>> FindCompiler() const {
    std::vector<std::string> words;
    if (request_.compiler) {
      NXDKIT_ASSIGN(words, SplitCommand(*request_.compiler));
      if (!FindProgram(words[0]))
        return Error(Errc::kNotFound, "no such program, or it may not be executed").in(words[0]);
    } else if (neuron_.flavor == rollout::Flavor::kOptimum && FindProgram(kCompiler)) {
      words = {kCompiler};
    }
    return words;
  }

  Error NoBlob() const {
    std::string looked = request_.cache.enabled ? fmt::format("the compile cache {} has no {}",
                                                              request_.cache.root, key_.module)
                                                : "the compile cache is not asked";
    return Error(Errc::kUnsupported,
                 fmt::format("no compiled blob can be had: {}, and there is no {}", looked,
                             neuron_.flavor == rollout::Flavor::kOptimum
                                 ? "optimum-cli in PATH"
                                 : "compiler for NxDI bundles (--compiler)"))
        .hint(
            "take one with --bundle, name a compiler with --compiler, use --target cpu for our "
            "own engine, or --no-blob for the weights alone");
  }

  Result<ExportReport> Finish(BlobOrigin origin, std::string path) {
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

  Result<ExportReport> WouldCompile(const std::vector<std::string>& command) {
    report_.command = CommandText(
        CompilerWords(command, {convert_.input, neuron_, convert_.output + ".compile"}));
    return Finish(BlobOrigin::kCompiler, "");
  }

  Result<ExportReport> Compile(const std::vector<std::string>& command) {
    // What a conversion would refuse is refused before the compiler runs for an hour.
    NXDKIT_TRY(DryRun(convert_));
    return request_.cache.enabled ? CompileIntoCache(command) : CompileAside(command);
  }

  Result<ExportReport> CompileIntoCache(const std::vector<std::string>& command) {
    NXDKIT_ASSIGN(
        neff::CacheSlot slot,
        neff::CacheSlot::Make(request_.cache.root,
                              cache_folder_.empty() ? neff::kUnknownCompiler : cache_folder_,
                              key_.module, convert_.run.poll));
    if (slot.entry().state == neff::EntryState::kFailed && !request_.cache.retry_failed)
      return FailedBefore(slot);
    // Another process may have made it while we waited.
    NXDKIT_ASSIGN(const bool done, IsGood(slot.entry()));
    if (!done) {
      NXDKIT_TRY(slot.Empty());
      const WorkFolder work(JoinPath(slot.path(), "work"));
      const std::string log = JoinPath(slot.path(), "log-neuron-cc.txt");
      Status compiled = RunCompiler(command, work.path(), log);
      if (compiled.ok()) compiled = TakeCompiled(work.path(), slot.path());
      if (!compiled.ok() && compiled.error().code() == Errc::kUnsupported)
        return Remember(slot, log, std::move(compiled).error());
      if (!compiled.ok()) {
        NXDKIT_TRY(slot.Empty());
        return std::move(compiled).error();
      }
      std::error_code ignored;
      fs::remove_all(work.path(), ignored);
      NXDKIT_TRY(slot.Finish(key_, summary_, convert_.run.poll));
      MakeRoom();
    }
    return FinishFrom(slot, BlobOrigin::kCompiler);
  }

  Result<bool> IsGood(const neff::CacheEntry& entry) const {
    if (entry.state != neff::EntryState::kDone) return false;
    NXDKIT_ASSIGN(const auto faults, neff::VerifyEntry(entry, convert_.run.poll));
    return faults.empty();
  }

  Error FailedBefore(const neff::CacheSlot& slot) const {
    return Error(Errc::kUnsupported,
                 "the compile cache remembers that compiling this failed; the log is here")
        .in(JoinPath(slot.path(), neff::kFailureFile))
        .hint("--retry-failed-compilation compiles it again");
  }

  // The entry becomes a remembered failure; the error names its log.
  Result<ExportReport> Remember(neff::CacheSlot& slot, const std::string& log, Error error) {
    const Result<std::string> text = ReadSmallFile(log, kMaxLogBytes);
    NXDKIT_TRY(slot.Fail(key_, text.ok() ? *text : std::string("the log is too long\n")));
    return Error(error.code(), error.message())
        .in(JoinPath(slot.path(), neff::kFailureFile))
        .hint("--retry-failed-compilation compiles it again once the cause is mended");
  }

  Result<ExportReport> CompileAside(const std::vector<std::string>& command) {
    std::string folder = convert_.output;
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
    const std::string log = folder + ".compile.log";
    folder += ".compile-XXXXXX";
    std::error_code ignored;
    fs::create_directories(ParentPath(folder), ignored);  // mkdtemp tells when that failed
    if (::mkdtemp(folder.data()) == nullptr) return OutputError("make a folder", errno).in(folder);
    const WorkFolder work(folder);
    const std::string made = JoinPath(work.path(), "bundle");
    NXDKIT_TRY(RunCompiler(command, made, log));
    fs::remove(log, ignored);
    convert_.options.bundle = made;
    return Finish(BlobOrigin::kCompiler, "");
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
    if (request_.on_warning)
      for (const std::string& line : result.last_lines) request_.on_warning("compiler: " + line);
    return Error(Errc::kUnsupported, fmt::format("the compiler ended with exit code {}: {}",
                                                 result.exit_code, report_.command))
        .in(log);
  }

  void MakeRoom() const {
    neff::PruneOptions limits = request_.limits;
    limits.failed = limits.stale_locks = false;
    const Result<neff::PruneReport> pruned = neff::Prune(request_.cache.root, limits);
    if (!request_.on_warning) return;
    if (!pruned.ok())
      request_.on_warning("the compile cache cannot be pruned: " + pruned.error().ToString());
    else if (pruned->over_limit_bytes > 0)
      request_.on_warning(fmt::format(
          "the compile cache {} is {} bytes over its limit: everything in it is in use or was used "
          "lately",
          request_.cache.root, pruned->over_limit_bytes));
  }

  void Detail(const std::string& text) const {
    if (request_.on_detail) request_.on_detail(text);
  }

  const ExportRequest& request_;
  ConvertRequest convert_;
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

std::string GraphText(const std::string& config_text, const rollout::NeuronConfig& neuron,
                      const models::ModelConfig& model) {
  Json config = Json::object();
  const Result<Json> parsed =
      ParseJson(config_text, {.allow_nan = true, .allow_duplicate_keys = true});
  if (parsed.ok() && parsed->is_object())
    for (const auto& [key, value] : parsed->items())
      if (std::ranges::find(kOutsideOfGraph, key) == kOutsideOfGraph.end()) config[key] = value;
  const models::GqaStrategy strategy =
      models::RolloutPlacement(model.heads, model.kv_heads, neuron.tp).strategy;
  return DumpPython(Json{{"model", std::move(config)},
                         {"neuron",
                          {{"batch_size", neuron.batch_size},
                           {"dtype", neuron.torch_dtype},
                           {"flavor", rollout::FlavorName(neuron.flavor)},
                           {"fused_qkv", neuron.fused_qkv},
                           {"gqa_strategy", models::GqaStrategyName(strategy)},
                           {"sequence_length", neuron.sequence_length},
                           {"tp_degree", neuron.tp}}},
                         {"schema", "nxdkit-graph"},
                         {"version", 1}}) +
         "\n";
}

Result<ExportReport> Export(const ExportRequest& request) { return Exporter(request).Run(); }

}  // namespace nxdkit::ops
