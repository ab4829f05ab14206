#include "formats/ops/convert/convert.h"

#include <fmt/core.h>

#include "formats/artifact/infinities.h"
#include "formats/artifact/lora/lora.h"
#include "formats/manifest/manifest.h"
#include "formats/nxd/optimum.h"
#include "formats/ops/convert/convert_parts.h"
#include "formats/ops/convert/parts.h"
#include "formats/ops/convert/standing.h"
#include "formats/ops/digest/digest.h"
#include "formats/ops/verify/blob.h"
#include "formats/ops/verify/checksums.h"
#include "formats/output/places.h"
#include "lib/hash/digest.h"
#include "lib/system/copy_file.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/staging.h"
#include "lib/system/system.h"

namespace nxdkit::ops {
namespace {

Result<BoundArtifact> OpenSource(const ConvertRequest& request) {
  if (request.source) return request.source();
  const bool adapter = (request.from == Kind::kHf || request.from == Kind::kNxd) &&
                       request.hints.lora.empty() &&
                       LooksLikeLora(request.input, request.hints.tag);
  if (adapter) return OpenLora(request.input, request.from, {}, request.hints);
  return OpenAndBind(request.input, request.from, request.hints);
}

// Modules that have one A in the source, or will have in the output, share it from the start.
Status ShareModules(const ConvertRequest& request, const OutputSpec& spec, BoundArtifact& adapter) {
  if (request.to != Kind::kNxd) return OkStatus();
  const nxd::LoraSharing own = adapter.lora->sharing;
  nxd::LoraSharing both = nxd::SharingOf(spec.nxd);
  both = {both.qkv || own.qkv, both.gate_up || own.gate_up};
  NXDKIT_ASSIGN(adapter, OpenLora(request.input, request.from, both, request.hints));
  return OkStatus();
}

// optimum-neuron's checkpoint is the folder around the tag.
Status CheckName(const ConvertRequest& request, const OutputSpec& spec) {
  if (!spec.optimum || BaseName(request.output) != nxd::kOptimumTag) return OkStatus();
  return Error(Errc::kUsage,
               fmt::format("the output is the checkpoint's folder, in which {} is made: expected a "
                           "name such as checkpoint-100",
                           nxd::kOptimumTag))
      .in(request.output);
}

}  // namespace

Result<Prepared> Prepare(const ConvertRequest& request) {
  Prepared out;
  NXDKIT_ASSIGN(out.source, OpenSource(request));
  NXDKIT_ASSIGN(out.spec, DecideOutput(out.source, request.to, request.options));
  NXDKIT_TRY(CheckName(request, out.spec));
  if (out.source.lora) NXDKIT_TRY(ShareModules(request, out.spec, out.source));
  NXDKIT_ASSIGN(out.output, PlanOutput(out.source, out.spec, BaseName(request.output)));
  Result<Plan> plan = BuildPlan(out.source.params, out.source.bound, out.output.layout);
  // Only the parameter is known by now; ckpt-verify finds the file and the rank.
  if (!plan.ok())
    return std::move(plan).error().in(request.input).hint("ckpt-verify names the files and ranks");
  out.plan = *std::move(plan);
  return out;
}

Result<ExecuteOptions> OptionsFor(const Prepared& prepared, const RunOptions& run) {
  return MakeExecuteOptions(LessPerThread(run, prepared.source.reading_bytes));
}

DeltaReport ReportOf(const delta::Head& head) {
  DeltaReport report;
  for (const delta::Param& param : head.params) {
    report.changed += param.changed;
    report.dense_bytes += param.bytes();
  }
  report.base = manifest::DigestText(head.base);
  report.result = manifest::DigestText(head.result);
  return report;
}

std::optional<LoraReport> LoraReportOf(const BoundArtifact& source) {
  const BoundArtifact& adapter = source.merged ? *source.merged : source;
  if (!adapter.lora) return std::nullopt;
  return LoraReport{adapter.artifact.path, adapter.lora->pair_count(), adapter.lora->whole_count(),
                    adapter.lora->config.rank, adapter.lora->config.ScaleOf("")};
}

ConvertReport MakeReport(const Prepared& prepared, const ConvertRequest& request,
                         const Workload& workload) {
  ConvertReport report;
  if (prepared.source.artifact.config)
    report.model_type = prepared.source.artifact.config->model_type;
  for (size_t i = 0; i < prepared.source.model_params(); ++i)
    report.parameters += static_cast<uint64_t>(*ElementCount(prepared.source.params[i].shape));
  report.source_bytes = prepared.source.artifact.file_bytes();
  report.output_bytes = prepared.output.bytes();
  report.output_files = prepared.output.files.size();
  report.output_tensors = prepared.output.outputs.size();
  report.tasks = workload.tasks;
  report.buffer_bytes = workload.buffer_bytes;
  report.predicted_memory = RssBytes() + workload.buffer_bytes +
                            prepared.source.reading_bytes * static_cast<uint64_t>(request.run.jobs);
  report.nxd = prepared.spec.nxd;
  report.xser = prepared.spec.xser;
  report.source_digest = prepared.spec.source_digest;
  if (const auto& optimizer = prepared.source.optimizer)
    report.optimizer = {optimizer->style, prepared.spec.optimizer_style, optimizer->dp,
                        prepared.spec.dp, optimizer->order.rule,         optimizer->EntryNames()};
  report.blob_missing =
      request.to == Kind::kRollout && !prepared.spec.bundle && prepared.spec.cpu_plan_text.empty();
  report.notes = prepared.spec.notes;
  for (const std::string& name : prepared.source.left_out)
    report.notes.push_back(fmt::format("{} is not a parameter and is left out", name));
  report.warnings = prepared.source.artifact.warnings;
  report.lora = LoraReportOf(prepared.source);
  if (prepared.source.artifact.delta)
    report.delta = ReportOf(prepared.source.artifact.delta->head());
  return report;
}

namespace {

// The folder that the artifact is, or none for a single file.
std::string FolderOf(const Artifact& artifact) {
  if (artifact.set) return artifact.set->location.tag_folder;
  return KindOf(artifact.path) == PathKind::kFolder ? artifact.path : "";
}

// Everything that would be destroyed by an output in its place.
std::vector<std::string> FilesRead(const Prepared& prepared, const ConvertRequest& request) {
  std::vector<std::string> read;
  for (const TensorFile& file : prepared.source.artifact.files) read.push_back(file.path);
  if (!prepared.source.artifact.config_path.empty())
    read.push_back(prepared.source.artifact.config_path);
  for (const BoundArtifact* adapter : {prepared.source.merged.get(), &prepared.source})
    if (adapter && adapter->lora) read.push_back(adapter->lora->config_path);
  // A bundle may be replaced by what is made from it; the blob has been copied by then.
  const bool in_place = request.options.bundle && SamePath(*request.options.bundle, request.output);
  if (request.options.bundle && !in_place) read.push_back(*request.options.bundle);
  return read;
}

Status CheckOutput(const Prepared& prepared, const ConvertRequest& request) {
  NXDKIT_TRY(CheckPlaces(request.output, FilesRead(prepared, request)));
  if (FindsOutput(request)) return OkStatus();  // it is compared, not replaced
  NXDKIT_TRY(CheckNotAPart(request.output, FolderOf(prepared.source.artifact)));
  if (prepared.source.merged)
    NXDKIT_TRY(CheckNotAPart(request.output, FolderOf(prepared.source.merged->artifact)));
  return Staging::Check(request.output,
                        {.replace = request.force, .folder = !prepared.output.single_file});
}

}  // namespace

// Identifies what an interrupted run was doing: the source's files as they are now, and the plan.
std::string Fingerprint(const Prepared& prepared, const Workload& workload) {
  Sha256 digest;
  const auto add = [&](const std::string& text) {
    digest.Update(std::as_bytes(std::span(text.data(), text.size())));
  };
  for (const TensorFile& file : prepared.source.artifact.files)
    add(fmt::format("in {} {} {}\n", file.path, file.file_bytes, FileStamp(file.path)));
  if (prepared.source.merged)
    add(fmt::format("scale {}\n", FileStamp(prepared.source.merged->lora->config_path)));
  for (size_t i = 0; i < prepared.output.files.size(); ++i)
    add(fmt::format("out {} {}\n", prepared.output.files[i].path,
                    prepared.output.files[i].encoder->file_bytes()));
  for (const OutputTensor& tensor : prepared.output.outputs)
    add(fmt::format("{} {} {}\n", tensor.name, Name(tensor.dtype), ShapeText(tensor.shape)));
  for (const TensorPlan& plan : prepared.plan.tensors)
    for (const CopyOp& op : plan.copies)
      add(fmt::format("{} {} {} {}\n", op.source, BoxText(op.box), op.start,
                      ShapeText(op.strides)));
  add(fmt::format("tasks {} buffers {}\n", workload.tasks, workload.buffer_bytes));
  return HexText(digest.Finish());
}

namespace {

Status WriteWeights(const Prepared& prepared, const Executor& executor_template,
                    const ExecuteOptions& options, const std::string& place,
                    const ConvertRequest& request, std::vector<OutputFile> files,
                    ConvertReport& report) {
  WriteSink::Options sink_options;
  sink_options.sync = request.sync;
  sink_options.jobs = request.run.jobs;
  // A single file has no folder to keep a journal in.
  if (!prepared.output.single_file)
    sink_options.fingerprint = Fingerprint(prepared, executor_template.workload());
  NXDKIT_ASSIGN(const std::unique_ptr<WriteSink> sink,
                WriteSink::Begin(place, prepared.output.layout, std::move(files), sink_options));
  report.resumed_tasks = sink->resumed_tasks();
  ExecuteOptions with_skip = options;
  with_skip.skip = [&](uint64_t task) { return sink->IsDone(task); };
  NXDKIT_ASSIGN(const Executor executor,
                Executor::Make(prepared.plan, prepared.source.bound, prepared.output.layout,
                               prepared.output.outputs, with_skip));
  return RunTasks(prepared, request, executor, *sink, report);
}

}  // namespace

Status RunTasks(const Prepared& prepared, const ConvertRequest& request, const Executor& executor,
                WriteSink& sink, ConvertReport& report) {
  if (request.run.begin) request.run.begin("writing", executor.workload().bytes);
  InfinityCounter counter(sink, prepared.plan, prepared.source.bound, prepared.output.outputs);
  NXDKIT_TRY(executor.Run(counter));
  for (std::string& warning : counter.Warnings()) report.warnings.push_back(std::move(warning));
  return sink.Finish();
}

Status WriteText(const std::string& path, const std::string& contents, bool sync) {
  NXDKIT_ASSIGN(File file, File::OpenWrite(path));
  NXDKIT_TRY(file.Allocate(contents.size()));
  NXDKIT_TRY(file.WriteAt(0, std::as_bytes(std::span(contents.data(), contents.size()))));
  if (sync) NXDKIT_TRY(file.Sync());
  return file.Close();
}

Status WriteSideFiles(const OutputPlan& output, const std::string& folder, bool sync) {
  for (const auto& [path, from] : output.copies)
    NXDKIT_TRY(CopyFile(from, JoinPath(folder, path), sync));
  for (const auto& [path, contents] : output.texts)
    NXDKIT_TRY(WriteText(JoinPath(folder, path), contents, sync));
  return OkStatus();
}

namespace {

// What was made of a delta and its base, bound: sound, and every parameter's digest the one that
// the delta promises. kFindings naming the first that is not.
Status RequireResult(const delta::Head& promised, const BoundArtifact& made,
                     const RunOptions& run) {
  NXDKIT_TRY(RequireSound(made, run));
  NXDKIT_ASSIGN(const ModelDigest found, DigestModel(made, run));
  if (found.digest == promised.result) return OkStatus();
  std::vector<manifest::ParamDigest> params;
  for (const delta::Param& param : promised.params)
    params.push_back({param.name, param.dtype, param.shape, param.result});
  const std::vector<Finding> findings =
      CompareModels(manifest::MakeModelDigest(std::move(params)), found);
  NXDKIT_CHECK(!findings.empty());
  const Finding& first = findings.front();
  return Error(Errc::kFindings,
               fmt::format("not what the delta promises: {} of {} parameters differ, the first has "
                           "the digest {}, expected {}",
                           findings.size(), promised.params.size(), first.found, first.expected))
      .in(made.artifact.path)
      .on(first.param)
      .hint(
          "the base is not the version that the delta was made from, or it was applied before; "
          "nothing was published");
}

Status VerifyWritten(const Prepared& prepared, const BoundArtifact& written,
                     const RunOptions& run) {
  NXDKIT_ASSIGN(std::vector<Finding> findings, CompareArtifacts(prepared.source, written, run));
  if (findings.empty()) return OkStatus();
  const Finding& first = findings.front();
  return Error(Errc::kFindings, fmt::format("verification failed: {}", first.message))
      .in(first.file)
      .on(first.tensor)
      .hint("the disk gave back other bytes than were written; nothing was published");
}

}  // namespace

Status CheckWritten(const Prepared& prepared, const ConvertRequest& request,
                    const std::string& place, const std::string& weights, ConvertReport& report) {
  const std::shared_ptr<const delta::Delta>& delta = prepared.source.artifact.delta;
  if (!request.verify && !delta) return OkStatus();
  InputHints hints;
  hints.claims.origin = "the conversion";
  hints.claims.hardware = prepared.spec.nxd.hardware;
  if (!prepared.source.artifact.config_path.empty())
    hints.config = prepared.source.artifact.config_path;
  hints.weights = weights;
  if (prepared.source.optimizer) {
    hints.optimizer = true;
    hints.param_order = prepared.source.optimizer->order.rule;
  }
  const std::optional<LoraParts>& lora = prepared.source.lora;
  NXDKIT_ASSIGN(const BoundArtifact written,
                lora ? OpenLora(place, request.to, lora->sharing, hints, &*lora)
                     : OpenAndBind(place, request.to, hints));
  if (delta) NXDKIT_TRY(RequireResult(delta->head(), written, request.run));
  if (request.verify) NXDKIT_TRY(VerifyWritten(prepared, written, request.run));
  report.verified = request.verify;
  return OkStatus();
}

// What a delta makes is proved by its digest, and that is one of its own dtypes.
Status CheckDelta(const Prepared& prepared) {
  if (!prepared.source.artifact.delta) return OkStatus();
  for (const delta::Param& param : prepared.source.artifact.delta->head().params)
    if (prepared.spec.dtype && Info(param.dtype).floating && *prepared.spec.dtype != param.dtype)
      return Error(Errc::kUsage, fmt::format("the output is to be {}, the delta makes {}",
                                             Name(*prepared.spec.dtype), Name(param.dtype)))
          .in(prepared.source.artifact.path)
          .on(param.name)
          .hint("apply it first, and convert what comes out");
  return OkStatus();
}

namespace {

// Copies that differ may be those that only the output would make one of: each A for itself is
// right then.
Status RequireSoundAdapter(const Prepared& prepared, const ConvertRequest& request) {
  NXDKIT_ASSIGN(const std::vector<Finding> findings, CheckSelf(prepared.source, request.run));
  if (findings.empty()) return OkStatus();
  NXDKIT_ASSIGN(const BoundArtifact apart,
                OpenLora(request.input, request.from, {}, request.hints));
  NXDKIT_TRY(RequireSound(apart, request.run));
  const Finding& first = findings.front();
  const bool qkv = first.param.find("qkv_proj") != std::string::npos;
  return Error(Errc::kUnsupported,
               fmt::format("NxD has one A for {}, and the adapter has different ones: {}",
                           qkv ? "q, k and v" : "gate and up", first.message))
      .in(first.file)
      .on(first.tensor)
      .hint(qkv ? "--qkv separate keeps them apart"
                : "--merge-lora merges the adapter into its base instead");
}

}  // namespace

Status CheckSource(const Prepared& prepared, const ConvertRequest& request) {
  NXDKIT_TRY(CheckDelta(prepared));
  const bool shares_modules = prepared.source.lora && request.to == Kind::kNxd;
  NXDKIT_TRY(shares_modules ? RequireSoundAdapter(prepared, request)
                            : RequireSound(prepared.source, request.run));
  if (!request.verify) return OkStatus();
  NXDKIT_ASSIGN(const std::vector<Finding> damaged,
                CheckChecksums(prepared.source.artifact, request.run));
  return FirstAsError(damaged);
}

// After all that could refuse the conversion, because it reads the whole source. Nothing of the
// tensors' layout changes with it.
Status RecordDigest(const ConvertRequest& request, Prepared& prepared) {
  if (prepared.source.lora)
    return Error(Errc::kUsage, "--digest: an adapter alone has no digest of a model")
        .in(request.input);
  NXDKIT_ASSIGN(const ModelDigest digest, DigestModel(prepared.source, request.run));
  prepared.spec.source_digest = manifest::DigestText(digest.digest);
  NXDKIT_ASSIGN(prepared.output,
                PlanOutput(prepared.source, prepared.spec, BaseName(request.output)));
  return OkStatus();
}

Result<Prepared> PrepareChecked(const ConvertRequest& request) {
  NXDKIT_TRY(CheckPlaces(request.output, {request.input}));
  NXDKIT_ASSIGN(Prepared prepared, Prepare(request));
  NXDKIT_TRY(CheckOutput(prepared, request));
  NXDKIT_TRY(CheckSource(prepared, request));
  if (prepared.spec.bundle) NXDKIT_TRY(RequireBlobs(*prepared.spec.bundle, request.run.poll));
  if (request.digest) NXDKIT_TRY(RecordDigest(request, prepared));
  return prepared;
}

namespace {

Result<ConvertReport> ReportStanding(Prepared& prepared, const ConvertRequest& request,
                                     const Executor& executor) {
  ConvertReport report = MakeReport(prepared, request, executor.workload());
  NXDKIT_TRY(RequireSameOutput(prepared, request, PlannedFiles(prepared.output), executor));
  NXDKIT_TRY(CheckWritten(prepared, request, request.output, "", report));
  report.already_published = true;
  return report;
}

}  // namespace

Result<ConvertReport> DryRun(const ConvertRequest& request) {
  if (request.to == Kind::kDelta)
    return Error(Errc::kUsage, "how large a delta is shows only when it is made")
        .hint("leave --dry-run out");
  if (request.into) return RefreshDryRun(request);
  if (request.part) return DryRunPart(request);
  NXDKIT_ASSIGN(Prepared prepared, PrepareChecked(request));
  NXDKIT_ASSIGN(const ExecuteOptions options, OptionsFor(prepared, request.run));
  NXDKIT_ASSIGN(const Executor executor,
                Executor::Make(prepared.plan, prepared.source.bound, prepared.output.layout,
                               prepared.output.outputs, options));
  if (FindsOutput(request)) return ReportStanding(prepared, request, executor);
  return MakeReport(prepared, request, executor.workload());
}

Result<ConvertReport> Convert(const ConvertRequest& request) {
  if (request.to == Kind::kDelta) return MakeDelta(request);
  if (request.into) return Refresh(request);
  if (request.part) return ConvertPart(request);
  NXDKIT_ASSIGN(Prepared prepared, PrepareChecked(request));
  NXDKIT_ASSIGN(const ExecuteOptions options, OptionsFor(prepared, request.run));
  NXDKIT_ASSIGN(const Executor executor,
                Executor::Make(prepared.plan, prepared.source.bound, prepared.output.layout,
                               prepared.output.outputs, options));
  if (FindsOutput(request)) return ReportStanding(prepared, request, executor);
  ConvertReport report = MakeReport(prepared, request, executor.workload());

  NXDKIT_ASSIGN(Staging staging,
                Staging::Begin(request.output, {.replace = request.force,
                                                .resume = request.resume,
                                                .folder = !prepared.output.single_file,
                                                .sync = request.sync}));
  std::vector<OutputFile> files;
  std::swap(files, prepared.output.files);
  Status written =
      WriteWeights(prepared, executor, options, staging.path(), request, std::move(files), report);
  if (!written.ok()) {
    // What is there can be continued; a full disk is better freed.
    if (written.error().code() == Errc::kInterrupted) staging.Keep();
    return std::move(written).error();
  }
  NXDKIT_TRY(WriteSideFiles(prepared.output, staging.path(), request.sync));
  NXDKIT_TRY(CheckWritten(prepared, request, staging.path(), "", report));
  NXDKIT_TRY(staging.Publish());
  return report;
}

}  // namespace nxdkit::ops
