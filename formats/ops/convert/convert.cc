// The steps of every conversion: it is planned, checked for anything that must be refused, and run
// into its destination.
#include "formats/ops/convert/convert.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/artifact/inexact.h"
#include "formats/artifact/proof.h"
#include "formats/artifact/values.h"
#include "formats/kinds/delta/read_delta.h"
#include "formats/kinds/rollout/decide_rollout.h"
#include "formats/manifest/manifest.h"
#include "formats/ops/convert/check_conversion.h"
#include "formats/ops/convert/delta_file.h"
#include "formats/ops/convert/part_destination.h"
#include "formats/ops/convert/standing.h"
#include "formats/ops/digest/digest.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/paths.h"
#include "lib/system/system.h"

namespace nxdkit::ops {
namespace {

std::optional<LoraReport> LoraReportOf(const BoundArtifact& source) {
  const BoundArtifact& adapter = source.merged ? *source.merged : source;
  if (!adapter.lora) return std::nullopt;
  return LoraReport{adapter.artifact.path, adapter.lora->pair_count(), adapter.lora->whole_count(),
                    adapter.lora->config.rank, adapter.lora->config.ScaleOf("")};
}

// Names a few; of many, the first.
void NoteLeftOut(const std::vector<std::string>& names, ConvertReport& report) {
  constexpr size_t kFew = 3;
  if (names.size() > kFew) {
    report.notes.push_back(fmt::format("{} are not parameters and are left out, the first is {}",
                                       Counted(names.size(), "tensor"), names.front()));
    return;
  }
  for (const std::string& name : names)
    report.notes.push_back(fmt::format("{} is not a parameter and is left out", name));
}

ConvertReport MakeReport(const ConvertRequest& request, const Conversion& conversion,
                         const Workload& workload) {
  const auto& [source, target, output, plan, files, base] = conversion;
  ConvertReport report;
  if (source.artifact.config) report.model_type = source.artifact.config->model_type;
  for (size_t i = 0; i < source.model_params(); ++i)
    report.parameters += static_cast<uint64_t>(*ElementCount(source.params[i].shape));
  report.source_bytes =
      source.artifact.file_bytes() + (base ? base->artifact.artifact.file_bytes() : 0);
  report.output_bytes = output.bytes();
  report.output_files = output.files.size();
  report.output_tensors = output.outputs.size();
  report.tasks = workload.tasks;
  report.buffer_bytes = workload.buffer_bytes;
  report.predicted_memory = HeldBytes(request.run) + workload.buffer_bytes +
                            source.reading_bytes * static_cast<uint64_t>(request.run.jobs);
  report.target = target;
  report.source_digest = target->source_digest;
  if (const auto& optimizer = source.optimizer)
    report.optimizer = {source.objects ? nxd::OptimizerStyle::kNamed : optimizer->style,
                        target->State().style,
                        optimizer->dp,
                        target->State().dp,
                        optimizer->order.rule,
                        optimizer->EntryNames()};
  const RolloutOutput* const bundle = AsRollout(*target);
  report.blob_missing = bundle && !bundle->bundle && bundle->cpu_plan_text.empty();
  report.notes = request.notes;
  for (const std::string& proof : source.artifact.proofs)
    report.notes.push_back("proved: " + proof);
  report.notes.insert(report.notes.end(), target->notes.begin(), target->notes.end());
  NoteLeftOut(source.left_out, report);
  report.AddSaid(source.artifact);
  if (base) report.AddSaid(base->artifact.artifact);  // of a delta to be written
  report.warnings.insert(report.warnings.end(), target->warnings.begin(), target->warnings.end());
  report.lora = LoraReportOf(source);
  if (const auto delta = DeltaOf(source.artifact)) report.delta = ReportOf(delta->head());
  const Part* const part = std::get_if<Part>(&request.place);
  if (part && !part->note.empty()) report.notes.push_back(part->note);
  if (part)
    report.part = {part->index, part->count, report.output_files, report.output_bytes, false, {}};
  return report;
}

// Comes after all checks that could refuse the conversion, because it reads the whole source. The
// tensors' layout does not change with it.
Status RecordDigest(const ConvertRequest& request, Conversion& conversion) {
  if (conversion.source.lora)
    return BadUsage("--digest: an adapter alone has no digest of a model").in(request.input);
  NXDKIT_ASSIGN(const ModelDigest digest, DigestModel(conversion.source, request.run));
  conversion.target->source_digest = manifest::DigestText(digest.digest);
  NXDKIT_ASSIGN(conversion.output, PlanRequested(request, conversion.source, *conversion.target));
  return OkStatus();
}

Result<std::unique_ptr<Destination>> MakeDestination(const ConvertRequest& request,
                                                     Conversion& conversion) {
  if (std::holds_alternative<Part>(request.place)) return MakePart(request, conversion);
  if (std::holds_alternative<Slot>(request.place)) return MakeSlot(request, conversion);
  if (conversion.base) return MakeDeltaFile(request, conversion);
  return MakeNewOutput(request, conversion);
}

// Counts the values of an optimizer's state that are rounded by a dtype that nobody chose.
Status CountInexact(const ConvertRequest& request, const Conversion& conversion,
                    ConvertReport& report) {
  if (!conversion.source.optimizer) return OkStatus();
  NXDKIT_ASSIGN(std::vector<std::string> lines,
                InexactElements(conversion.plan, conversion.source.bound, conversion.output.layout,
                                conversion.output.outputs, request.run));
  for (std::string& line : lines) report.warnings.push_back(std::move(line));
  return OkStatus();
}

// Whether the bytes written are those that were read. The tasks of an earlier run cannot be
// checked.
Status ProveSource(const ConvertRequest& request, const Conversion& conversion,
                   ConvertReport& report) {
  const Proving read = report.resumed_tasks > 0 ? Proving::kTouched : Proving::kMost;
  NXDKIT_ASSIGN(const Proof proof,
                Prove(conversion.source, request.verify ? Proving::kAll : read, request.run));
  for (std::string& note : ProofNotes(proof)) report.notes.push_back(std::move(note));
  if (conversion.base) NXDKIT_TRY(Prove(conversion.base->artifact, read, request.run));
  return OkStatus();
}

// Notes on written values that somebody should look at: at most four lines.
void NoteValues(const Conversion& conversion, const ValueScan& scan, ConvertReport& report) {
  constexpr size_t kNamed = 2;
  const auto name = [&](const ParamValues& values) -> const std::string& {
    return conversion.source.params[values.param].name;
  };
  std::vector<std::string> lines;
  for (const ParamValues& values : scan.Params()) {
    if (values.nan + values.inf == 0) {
      // One part of several sees only some of the parameter.
      if (!report.part && MayNotBeZero(conversion.source, values.param))
        report.values.zero.push_back(name(values));
      continue;
    }
    const Dtype dtype = conversion.output.outputs[values.tensor].dtype;
    lines.push_back(fmt::format("{}: {} as {}", name(values), NotFiniteText(values), Name(dtype)));
    report.values.not_finite.push_back(name(values));
    report.values.nan += values.nan;
    report.values.inf += values.inf;
  }
  const size_t more = lines.size() - std::min(lines.size(), kNamed);
  lines.resize(lines.size() - more);
  if (more > 0)
    lines.push_back(
        fmt::format("{} more parameters have elements that are NaN or infinite: "
                    "ckpt-verify names them",
                    more));
  if (const auto& zero = report.values.zero; !zero.empty())
    lines.push_back(fmt::format(
        "{} of nothing but zeros, the first is {}",
        zero.size() == 1 ? "a parameter is" : fmt::format("{} parameters are", zero.size()),
        zero.front()));
  for (std::string& line : lines) report.warnings.push_back(std::move(line));
}

Status RunInto(Sink& sink, const ConvertRequest& request, const Conversion& conversion,
               const Executor& executor, ConvertReport& report) {
  if (request.run.begin)
    request.run.begin(conversion.base ? "comparing" : "writing", executor.workload().bytes);
  ValueScan scan(conversion.output.layout, conversion.output.outputs);
  ValueSink looked_at(sink, scan);
  NXDKIT_TRY(executor.Run(looked_at));
  NXDKIT_TRY(ProveSource(request, conversion, report));
  NoteValues(conversion, scan, report);
  return CountInexact(request, conversion, report);
}

Status Make(const ConvertRequest& request, const Conversion& conversion, const Executor& executor,
            Destination& destination, ConvertReport& report) {
  NXDKIT_ASSIGN(Sink* const sink, destination.Begin(executor.workload(), report));
  if (sink) {
    Status run = RunInto(*sink, request, conversion, executor, report);
    // The partial output can be continued, but not from memory; a full disk is better freed.
    const bool can_go_on = !request.hints.memory && !request.source;
    if (!run.ok() && run.error().code() == Errc::kInterrupted && can_go_on) destination.Keep();
    NXDKIT_TRY(std::move(run));
  }
  NXDKIT_ASSIGN(const std::optional<MadePlace> made, destination.Finish(report));
  if (!made) return OkStatus();
  NXDKIT_TRY(CheckWritten(request, conversion, *made, report));
  return destination.Publish(report);
}

// Whether another process has published meanwhile, and removed the files of this part.
Result<bool> IsOvertaken(const ConvertRequest& request, const Status& made,
                         const ConvertReport& report) {
  if (!report.part || report.part->published) return false;
  if (!made.ok() && made.error().code() == Errc::kInterrupted) return false;
  return FindsOutput(request);
}

// Reports the choices before the work begins, for -v.
void TellChoices(const ConvertRequest& request, const Conversion& conversion,
                 const ConvertReport& report) {
  if (!request.on_detail) return;
  const Artifact& from = conversion.source.artifact;
  request.on_detail(fmt::format("{} is {}: {} in {}, {}", request.input, from.kind->called,
                                Counted(from.tensor_count(), "tensor"),
                                Counted(from.files.size(), "file"), HumanBytes(from.file_bytes())));
  if (conversion.source.model)
    request.on_detail(
        fmt::format("the model is {} ({}), by {}", report.model_type,
                    Counted(conversion.source.model_params(), "parameter"),
                    from.config_path.empty() ? "a configuration that was made" : from.config_path));
  for (const std::string& proof : from.proofs) request.on_detail(proof);
  for (const std::string& note : report.notes) request.on_detail(note);
  request.on_detail(fmt::format("{} becomes {}: {} in {}, {}", request.output, request.to->called,
                                Counted(report.output_tensors, "tensor"),
                                Counted(report.output_files, "file"),
                                HumanBytes(report.output_bytes)));
  request.on_detail(fmt::format("{} on {}; {} of buffers, about {} of memory under a limit of {}",
                                Counted(report.tasks, "task"), Counted(request.run.jobs, "thread"),
                                HumanBytes(report.buffer_bytes),
                                HumanBytes(report.predicted_memory),
                                HumanBytes(request.run.max_memory)));
}

Result<ConvertReport> Run(const ConvertRequest& request, bool dry_run) {
  NXDKIT_TRY(CheckRequest(request));
  std::string repaired;
  if (!dry_run && std::holds_alternative<Slot>(request.place))
    NXDKIT_TRY(rollout::RepairBundle(request.output, request.sync).To(repaired));
  NXDKIT_ASSIGN(Conversion conversion, PlanConversion(request));
  NXDKIT_TRY(CheckConversion(request, conversion));
  std::optional<hardware::Fit> fit;
  if (request.instance) NXDKIT_TRY(FitOf(request, conversion).To(fit));
  if (request.digest) NXDKIT_TRY(RecordDigest(request, conversion));
  NXDKIT_ASSIGN(const std::unique_ptr<Destination> destination,
                MakeDestination(request, conversion));
  NXDKIT_ASSIGN(const Executor executor, MakeExecutor(conversion, request.run));
  ConvertReport report = MakeReport(request, conversion, executor.workload());
  if (fit)
    report.warnings.insert(report.warnings.end(), fit->warnings.begin(), fit->warnings.end());
  report.fit = std::move(fit);
  if (request.here)
    if (std::string misfit = MisfitHere(request, conversion); !misfit.empty())
      report.warnings.push_back(std::move(misfit));
  if (!repaired.empty()) report.notes.push_back(std::move(repaired));
  TellChoices(request, conversion, report);
  NXDKIT_ASSIGN(const bool stands, FindsOutput(request));
  if (!conversion.base && stands) {
    NXDKIT_TRY(RequireSameOutput(request, conversion, executor));
    NXDKIT_TRY(CheckWritten(request, conversion, {request.output, ""}, report));
    destination->Stands(report, dry_run);
    return report;
  }
  if (dry_run) {
    NXDKIT_TRY(destination->Check());
    return report;
  }
  Status made = Make(request, conversion, executor, *destination, report);
  const Result<bool> overtaken = IsOvertaken(request, made, report);
  if (overtaken.ok() && *overtaken) return Run(request, dry_run);
  NXDKIT_TRY(std::move(made));
  return overtaken.ok() ? Result<ConvertReport>(std::move(report)) : overtaken.error();
}

}  // namespace

Result<ConvertReport> DryRun(const ConvertRequest& request) {
  if (request.to == &kDelta)
    return BadUsage("the size of a delta is known only once it is made")
        .hint("leave --dry-run out");
  return Run(request, true);
}

Result<ConvertReport> Convert(const ConvertRequest& request) { return Run(request, false); }

}  // namespace nxdkit::ops
