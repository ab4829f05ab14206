#include "formats/ops/convert/check_conversion.h"

#include <fmt/format.h>

#include "formats/kinds/adapter.h"
#include "formats/kinds/delta/read_delta.h"
#include "formats/kinds/open.h"
#include "formats/kinds/rollout/decide_rollout.h"
#include "formats/manifest/manifest.h"
#include "formats/ops/convert/standing.h"
#include "formats/ops/digest/digest.h"
#include "formats/ops/verify/blob.h"
#include "formats/ops/verify/compare.h"
#include "lib/base/errors.h"
#include "lib/system/places.h"
#include "lib/system/staging.h"
#include "lib/system/system.h"

namespace nxdkit::ops {
namespace {

Status CheckSlot(const ConvertRequest& request) {
  if (!request.to->refreshes)
    return BadUsage("only the weights of a rollout bundle can be replaced in place")
        .hint("--into needs --to rollout");
  if (request.options.Has("bundle"))
    return BadUsage("with --into, blob and settings are OUTPUT's; --bundle names others")
        .hint("leave --bundle out");
  if (request.force)
    return BadUsage("--into replaces the weights of OUTPUT: --force does not apply");
  return OkStatus();
}

Status CheckDeltaFile(const ConvertRequest& request) {
  if (!request.hints.Has("base"))
    return BadUsage("a delta needs the model on which it is based").hint("name it with --base");
  if (!std::holds_alternative<NewOutput>(request.place))
    return BadUsage(
        "a delta is written by one process to a file of its own: --into and --part do not apply");
  return OkStatus();
}

// All paths that an output in their place would destroy.
Result<std::vector<std::string>> FilesRead(const ConvertRequest& request,
                                           const Conversion& conversion) {
  std::vector<std::string> read = PathsOf(conversion.source.artifact);
  if (!conversion.source.artifact.config_path.empty())
    read.push_back(conversion.source.artifact.config_path);
  for (const BoundArtifact* adapter : {conversion.source.merged.get(), &conversion.source})
    if (adapter && adapter->lora) read.push_back(adapter->lora->config_path);
  // A bundle may be replaced by its own conversion; the blob has been copied by then.
  if (const std::optional<std::string> bundle = request.options.Text("bundle")) {
    NXDKIT_ASSIGN(const bool in_place, SamePath(*bundle, request.output));
    if (!in_place) read.push_back(*bundle);
  }
  return read;
}

Status CheckOutput(const ConvertRequest& request, const Conversion& conversion) {
  NXDKIT_ASSIGN(const std::vector<std::string> read, FilesRead(request, conversion));
  NXDKIT_TRY(CheckPlaces(request.output, read));
  NXDKIT_ASSIGN(const bool stands, FindsOutput(request));
  if (stands) return OkStatus();  // compared, not replaced
  for (const BoundArtifact* source :
       {conversion.source.merged.get(), &std::as_const(conversion.source)}) {
    if (!source) continue;
    NXDKIT_TRY(CheckNotAPart(request.output, source->artifact.folder));
  }
  return Staging::Check(request.output,
                        {.replace = request.force, .folder = !conversion.output.single_file});
}

// The result of a delta is verified by its digest, which covers its own dtypes.
Status CheckDelta(const Conversion& conversion) {
  const std::shared_ptr<const delta::Delta> delta = DeltaOf(conversion.source.artifact);
  if (!delta) return OkStatus();
  const Output& target = *conversion.target;
  for (const delta::Param& param : delta->head().params) {
    const Dtype wanted =
        target.dtype.value_or(target.downcast ? Downcast(param.dtype) : param.dtype);
    if (Info(param.dtype).floating && wanted != param.dtype)
      return BadUsage("the output is to be {}, but the delta makes {}", Name(wanted),
                      Name(param.dtype))
          .in(conversion.source.artifact.path)
          .on(param.name)
          .hint("apply it first, and convert the result");
  }
  return OkStatus();
}

// Copies that differ may be copies only because the output would merge them: a separate A for each
// is then correct.
Status RequireSoundAdapter(const ConvertRequest& request, const Conversion& conversion) {
  NXDKIT_ASSIGN(const std::vector<Finding> findings, CheckSelf(conversion.source, request.run));
  if (findings.empty()) return OkStatus();
  NXDKIT_ASSIGN(const BoundArtifact apart,
                OpenLora(request.input, *request.from, {}, request.hints, request.look));
  NXDKIT_TRY(RequireSound(apart, request.run));
  const Finding& first = findings.front();
  const bool qkv = first.param.find("qkv_proj") != std::string::npos;
  return Unsupported("NxD has one A for {}, and the adapter has different ones: {}",
                     qkv ? "q, k and v" : "gate and up", first.message)
      .in(first.file)
      .on(first.tensor)
      .hint(qkv ? "--qkv separate keeps them apart"
                : "--merge-lora merges the adapter into its base instead");
}

// Checks the tag as it is stored: the conversion replaces its weights by the master weights.
Status RequireSoundTag(const ConvertRequest& request) {
  NXDKIT_ASSIGN(const BoundArtifact tag,
                OpenAndBind(request.input, request.from, request.hints, request.look));
  return RequireSound(tag, request.run);
}

Status RequireSoundSource(const ConvertRequest& request, const Conversion& conversion) {
  const bool shares_modules = conversion.source.lora && conversion.target->Sharing();
  if (shares_modules) return RequireSoundAdapter(request, conversion);
  const bool folds = conversion.source.optimizer && request.from->state == StateForm::kNumbered &&
                     request.to->state == StateForm::kNamed && !request.source;
  return folds ? RequireSoundTag(request) : RequireSound(conversion.source, request.run);
}

Status CheckSource(const ConvertRequest& request, const Conversion& conversion) {
  NXDKIT_TRY(CheckDelta(conversion));
  NXDKIT_TRY(RequireSoundSource(request, conversion));
  return conversion.base ? RequireSound(conversion.base->artifact, request.run) : OkStatus();
}

// The input as a path; a source in memory has none.
std::vector<std::string> InputPath(const ConvertRequest& request) {
  const bool is_path = !request.hints.memory || request.from->reads_base;
  return is_path ? std::vector<std::string>{request.input} : std::vector<std::string>();
}

}  // namespace

Status CheckRequest(const ConvertRequest& request) {
  if (request.to == &kDelta) {
    NXDKIT_TRY(CheckDeltaFile(request));
    std::vector<std::string> read = InputPath(request);
    if (!request.base_memory) read.push_back(*request.hints.Text("base"));
    return CheckPlaces(request.output, read);
  }
  if (std::holds_alternative<Slot>(request.place)) return CheckSlot(request);
  if (std::holds_alternative<Part>(request.place) && request.hints.memory)
    return Unsupported(
               "parts are made by several processes, and these tensors are in the memory "
               "of one")
        .in(request.input)
        .hint("make the output in one process, or write the tensors to files first");
  return CheckPlaces(request.output, InputPath(request));
}

Result<hardware::Fit> FitOf(const ConvertRequest& request, const Conversion& conversion) {
  NXDKIT_ASSIGN(std::optional<hardware::Fit> fit,
                conversion.target->FitOn(conversion.source,
                                         {*request.instance, request.training, conversion.output}));
  if (!fit) return BadUsage("--instance: this output is not laid out for an instance");
  constexpr hardware::Levers kLevers = {
      .parallel = "--tp or --pp", .micro_batch = "--seq", .cache = "--bs or --seq"};
  NXDKIT_TRY(hardware::CheckFit(*fit, kLevers).in(request.output));
  return *std::move(fit);
}

std::string MisfitHere(const ConvertRequest& request, const Conversion& conversion) {
  const hardware::Instance& here = *request.here;
  const auto fit =
      conversion.target->FitOn(conversion.source, {here, request.training, conversion.output});
  if (!fit.ok() || !*fit || (*fit)->problems.empty()) return "";
  return fmt::format(
      "this machine is {} with {} cores, and what is made does not fit it: {}; --instance auto "
      "would refuse it, --instance NAME is for another one",
      here.name, here.cores, fmt::join((*fit)->problems, "; "));
}

Status CheckConversion(const ConvertRequest& request, const Conversion& conversion) {
  const bool fresh = request.to != &kDelta && !std::holds_alternative<Slot>(request.place);
  if (fresh) NXDKIT_TRY(CheckOutput(request, conversion));
  NXDKIT_TRY(CheckSource(request, conversion));
  const RolloutOutput* const rollout = AsRollout(*conversion.target);
  if (fresh && rollout && rollout->bundle)
    NXDKIT_TRY(RequireBlobs(*rollout->bundle, request.run.poll));
  return OkStatus();
}

namespace {

// Checks the opened result of a delta and its base: it is sound, and every parameter's digest is as
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

Status VerifyWritten(const Conversion& conversion, const BoundArtifact& written,
                     const RunOptions& run) {
  NXDKIT_ASSIGN(std::vector<Finding> findings, CompareArtifacts(conversion.source, written, run));
  if (findings.empty()) return OkStatus();
  const Finding& first = findings.front();
  return Error(Errc::kFindings, fmt::format("verification failed: {}", first.message))
      .in(first.file)
      .on(first.tensor)
      .hint("the disk returned other bytes than were written; nothing was published");
}

// The decisions that cannot be read from the output alone.
InputHints HintsOfMade(const ConvertRequest& request, const Conversion& conversion,
                       const MadePlace& made) {
  InputHints hints;
  if (conversion.base) {
    hints = BaseHints(request, conversion.base->artifact.artifact.kind);
    hints.Set("base", request.hints.Text("base"));
    return hints;
  }
  const BoundArtifact& source = conversion.source;
  hints.origin = "the conversion";
  conversion.target->Tell(hints);
  if (!source.artifact.config_path.empty()) hints.config = source.artifact.config_path;
  // The folder around the output may have another model's.
  hints.no_config = source.artifact.config_path.empty() && !source.model;
  if (!made.weights.empty()) hints.Set("slot", made.weights);
  hints.optimizer = source.optimizer || !source.run.empty();
  if (source.optimizer)
    hints.Set("param-order", std::string(nxd::GroupRuleName(source.optimizer->order.rule)));
  return hints;
}

}  // namespace

Status CheckWritten(const ConvertRequest& request, const Conversion& conversion,
                    const MadePlace& made, ConvertReport& report) {
  const BoundArtifact& source = conversion.source;
  const std::shared_ptr<const delta::Delta> applied =
      conversion.base ? nullptr : DeltaOf(source.artifact);
  if (!request.verify && !applied) return OkStatus();
  const InputHints hints = HintsOfMade(request, conversion, made);
  NXDKIT_ASSIGN(
      const BoundArtifact written,
      source.lora ? OpenLora(made.path, *request.to, source.lora->sharing, hints, {}, &*source.lora)
                  : OpenAndBind(made.path, request.to, hints));
  if (applied) NXDKIT_TRY(RequireResult(applied->head(), written, request.run));
  if (request.verify) NXDKIT_TRY(VerifyWritten(conversion, written, request.run));
  report.verified = request.verify;
  return OkStatus();
}

}  // namespace nxdkit::ops
