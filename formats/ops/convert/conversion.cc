#include "formats/ops/convert/conversion.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/kinds/adapter.h"
#include "formats/kinds/bind.h"
#include "formats/kinds/decide.h"
#include "formats/kinds/hf/read_hf.h"
#include "formats/kinds/nxd/nxd_options.h"
#include "formats/kinds/open.h"
#include "formats/manifest/manifest.h"
#include "formats/ops/convert/delta_file.h"
#include "formats/ops/verify/compare.h"
#include "formats/training/named_state.h"
#include "formats/training/numbered_state.h"
#include "formats/zero/tag_files.h"
#include "lib/base/errors.h"
#include "lib/hash/digest.h"
#include "lib/system/owner.h"
#include "lib/system/paths.h"
#include "lib/system/system.h"

namespace nxdkit::ops {
namespace {

// If names are kept, a run with a LoRA adapter stays one, so that it can be resumed.
InputHints SourceHints(const ConvertRequest& request) {
  InputHints hints = request.hints;
  if (request.to->state == StateForm::kNamed && !hints.Has("lora")) hints.Set("lora", "stored");
  return hints;
}

Result<BoundArtifact> OpenSource(const ConvertRequest& asked) {
  if (asked.source) return asked.source();
  ConvertRequest request = asked;
  request.hints = SourceHints(asked);
  const Kind& from = *request.from;
  if (!from.bind_adapter || !request.hints.lora.empty() || request.hints.memory)
    return OpenAndBind(request.input, request.from, request.hints, request.look);
  NXDKIT_ASSIGN(const bool is_peft, LooksLikePeft(request.input, request.look));
  if (is_peft) return OpenLora(request.input, from, {}, request.hints, request.look);
  NXDKIT_ASSIGN(Artifact artifact,
                OpenArtifact(request.input, request.from, request.hints, request.look));
  if (from.holds_adapter && from.holds_adapter(artifact, request.hints))
    return OpenLora(request.input, from, {}, request.hints, request.look);
  return Bind(std::move(artifact), request.hints);
}

// Modules that have one A in the source, or will have one in the output, share it from the start.
Status ShareModules(const ConvertRequest& request, const Output& target, BoundArtifact& adapter) {
  const std::optional<nxd::LoraSharing> shares = target.Sharing();
  if (!shares) return OkStatus();
  const nxd::LoraSharing own = adapter.lora->sharing;
  const nxd::LoraSharing both{shares->qkv || own.qkv, shares->gate_up || own.gate_up};
  NXDKIT_ASSIGN(adapter, OpenLora(request.input, *request.from, both, request.hints, request.look));
  return OkStatus();
}

// The bundle itself serves as the compiled one, and a delta without a base changes its weights.
ConvertRequest IntoBundle(const ConvertRequest& request) {
  ConvertRequest out = request;
  out.options.Set("bundle", request.output);
  out.options.Set("only-weights", true);
  if (out.from->reads_base && !out.hints.Has("base")) out.hints.Set("base", out.output);
  return out;
}

Status RequireState(const ConvertRequest& request, const BoundArtifact& source) {
  if (!request.state_required || source.optimizer) return OkStatus();
  const std::vector<std::string>& warnings = source.artifact.warnings;
  const auto left_out = std::ranges::find_if(warnings, [](const std::string& warning) {
    return warning.find("state is left out") != std::string::npos;
  });
  return NotFound("the optimizer's state is asked for, and {}",
                  left_out == warnings.end() ? "there is none" : *left_out)
      .in(source.artifact.path)
      .hint("--no-optimizer, without --dp and --param-order, converts only the weights");
}

// Notes an optimizer file next to a model, as transformers' Trainer and accelerate write it.
Status NoteOptimizerFile(const ConvertRequest& request, const BoundArtifact& source,
                         std::vector<std::string>& notes) {
  const bool keeps_none = request.from->state == StateForm::kNone;
  if (request.to->state == StateForm::kNone || !keeps_none) return OkStatus();
  const std::string& folder = source.artifact.folder;
  if (folder.empty()) return OkStatus();
  NXDKIT_ASSIGN(const bool deepspeed, zero::HasTags(folder, source.artifact.look));
  if (deepspeed)
    notes.push_back(
        "DeepSpeed's optimizer is not read: the state starts from zeros (--from zero reads it)");
  for (const char* name : {"optimizer.pt", "optimizer.bin"}) {
    NXDKIT_ASSIGN(const bool there, source.artifact.look.HasFile(folder, name));
    if (there)
      notes.push_back(fmt::format("{} is not read: the optimizer starts from zeros{}", name,
                                  std::string_view(name) == "optimizer.bin"
                                      ? " (--from dcp reads that of an FSDP run)"
                                      : ""));
  }
  return OkStatus();
}

// Converts the optimizer's state, if there is one, to the form of the output's format.
Status MatchState(const ConvertRequest& request, BoundArtifact& source,
                  std::vector<std::string>& notes) {
  NXDKIT_TRY(NoteOptimizerFile(request, source, notes));
  if (request.to->state == StateForm::kNamed) NXDKIT_TRY(ToNamedState(source, notes));
  // Numbers follow the model's order of parameters.
  if (request.to->state == StateForm::kNumbered && source.optimizer)
    NXDKIT_TRY(RequireModel(source));
  if (request.to->state == StateForm::kNumbered)
    NXDKIT_TRY(ToNumberedState(source, ParamOrderOf(request.hints), notes));
  return RequireState(request, source);
}

Result<Conversion> PlanLayout(const ConvertRequest& request) {
  Conversion out;
  NXDKIT_ASSIGN(out.source, OpenSource(request));
  std::vector<std::string> notes;
  if (!request.to->keeps_carried) LeaveCarried(out.source);
  NXDKIT_TRY(MatchState(request, out.source, notes));
  NXDKIT_ASSIGN(out.target, DecideOutput(out.source, *request.to, request.options));
  Output& target = *out.target;
  target.notes.insert(target.notes.begin(), notes.begin(), notes.end());
  NXDKIT_TRY(target.CheckName(request.output));
  if (out.source.lora) NXDKIT_TRY(ShareModules(request, target, out.source));
  NXDKIT_ASSIGN(out.output, PlanRequested(request, out.source, target));
  Result<Plan> plan = BuildPlan(out.source.params, out.source.bound, out.output.layout);
  // Only the parameter is known here; ckpt-verify finds the file and the rank.
  if (!plan.ok())
    return std::move(plan).error().in(request.input).hint("ckpt-verify names the files and ranks");
  out.plan = *std::move(plan);
  for (const OutputFile& file : out.output.files)
    out.files.push_back({file.path, file.encoder->file_bytes()});
  return out;
}

// A delta has its base's layout.
class NoLayout : public Output {
 public:
  using Output::Output;
  Status Plan(OutputBuilder&) const override {
    return Error(Errc::kInternal, "a delta has no layout");
  }
};

// Every parameter of the base, in the layout of the input.
Result<Conversion> PlanDelta(const ConvertRequest& request) {
  Conversion out;
  out.target = std::make_shared<NoLayout>(OutputOptions());
  NXDKIT_ASSIGN(out.source, request.source ? request.source()
                                           : OpenAndBind(request.input, request.from, request.hints,
                                                         request.look));
  const std::string base_path = request.hints.Text("base").value_or("");
  const Kind* kind = nullptr;
  if (!request.base_memory) NXDKIT_TRY(Recognise(base_path, request.look).To(kind));
  Conversion::Base base;
  NXDKIT_ASSIGN(base.artifact,
                OpenAndBind(base_path, kind, BaseHints(request, kind), request.look));
  NXDKIT_ASSIGN(base.plan, PlanCanonical(base.artifact));
  NXDKIT_ASSIGN(out.source.bound.layout, Renumber(base.artifact, out.source));
  out.source.params = base.artifact.params;
  out.output.layout = base.plan.layout;
  out.output.outputs = base.plan.outputs;
  out.output.single_file = true;
  NXDKIT_ASSIGN(out.plan, BuildPlan(out.source.params, out.source.bound, out.output.layout));
  out.base = std::make_unique<const Conversion::Base>(std::move(base));
  return out;
}

}  // namespace

InputHints BaseHints(const ConvertRequest& request, const Kind* kind) {
  InputHints hints;
  if (kind == request.from) hints = request.hints;
  for (const char* own : {"base", "weights", "tag"}) hints.Reset(own);
  hints.lora.clear();
  hints.prefix.clear();
  hints.memory = request.base_memory;
  hints.origin = request.hints.origin;
  hints.config = request.hints.config;
  return hints;
}

Result<OutputPlan> PlanRequested(const ConvertRequest& request, const BoundArtifact& source,
                                 const Output& target) {
  const uint64_t most = request.run.max_memory;
  Result<OutputPlan> plan =
      PlanOutput(source, target, BaseName(request.output), request.verify ? most / 4 * 3 : most);
  if (plan.ok() || !request.verify || plan.error().code() != Errc::kLimit) return plan;
  return Error(Errc::kLimit,
               plan.error().message() +
                   "; with --verify a quarter of --max-memory is kept for opening the output")
      .hint(plan.error().hint());
}

Result<Conversion> PlanConversion(const ConvertRequest& request) {
  if (request.to == &kDelta) return PlanDelta(request);
  return PlanLayout(std::holds_alternative<Slot>(request.place) ? IntoBundle(request) : request);
}

Result<Executor> MakeExecutor(const Conversion& conversion, const RunOptions& run) {
  const OutputPlan& output = conversion.output;
  NXDKIT_ASSIGN(const ExecuteOptions options,
                conversion.base
                    ? MakeAlignedOptions(run, delta::kBlockBytes, kDeltaBytesPerThread)
                    : MakeExecuteOptions(LessPerThread(run, conversion.source.reading_bytes)));
  return Executor::Make(conversion.plan, conversion.source.bound, output.layout, output.outputs,
                        options);
}

Result<std::string> Fingerprint(const Conversion& conversion, const Workload& workload) {
  Sha256 digest;
  const auto add = [&](const std::string& text) {
    digest.Update(std::as_bytes(std::span(text.data(), text.size())));
  };
  for (const TensorFile& file : conversion.source.artifact.files) {
    if (file.format == kInMemory) {
      add(fmt::format("in memory {:016x}\n", RandomNumber()));  // nobody knows whether it changes
      continue;
    }
    NXDKIT_ASSIGN(const std::string stamp, FileStamp(file.path));
    add(fmt::format("in {} {} {}\n", file.path, file.file_bytes, stamp));
  }
  if (conversion.source.merged)
    add(fmt::format("adapter {}\n", lora::WriteConfig(conversion.source.merged->lora->config)));
  for (const PlannedFile& file : conversion.files)
    add(fmt::format("out {} {}\n", file.path, file.bytes));
  for (const OutputTensor& tensor : conversion.output.outputs)
    add(fmt::format("{} {} {}\n", tensor.name, Name(tensor.dtype), ShapeText(tensor.shape)));
  for (const TensorPlan& plan : conversion.plan.tensors)
    for (const CopyOp& op : plan.copies)
      add(fmt::format("{} {} {} {}\n", op.source, BoxText(op.box), op.start,
                      ShapeText(op.strides)));
  add(fmt::format("tasks {} buffers {}\n", workload.tasks, workload.buffer_bytes));
  return HexText(digest.Finish());
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

}  // namespace nxdkit::ops
