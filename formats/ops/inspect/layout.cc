#include "formats/ops/inspect/layout.h"

#include <fmt/core.h>

#include <set>

#include "formats/kinds/nxd/nxd_options.h"
#include "formats/kinds/nxd/nxd_state.h"
#include "formats/kinds/open.h"
#include "formats/kinds/rollout/rollout_state.h"

namespace nxdkit::ops {
namespace {

using Outcome = LayoutCheck::Outcome;

// An adapter's shards are a set like a model's; only the names tell.
bool HoldsLora(const Artifact& artifact) {
  for (const TensorFile& file : artifact.files)
    for (const StoredTensor& tensor : file.tensors)
      if (tensor.name.find(".lora_") != std::string::npos) return true;
  return false;
}

// Why the layout of this form is not looked at; "" when it is.
std::string WhyNotChecked(const Inspection& inspection) {
  switch (inspection.form) {
    case Form::kNxdShard:
    case Form::kRolloutShard:
      return "one rank's file; the whole folder can be checked";
    case Form::kTorchTree:
    case Form::kTorchScript:
      return "not a state dict of a model";
    case Form::kNxdRoot:
      return "no tag is read";
    case Form::kNeff:
    case Form::kCompileCache:
      return "compiled graphs hold no weights";
    case Form::kDelta:
      return "a delta holds what changed; --base of nxd-convert makes the model";
    case Form::kLoraAdapter:
      return "an adapter is not a whole model";
    case Form::kNxdOptimizer:
      return "the state of an optimizer, no weights";
    default:
      break;
  }
  if (inspection.tensors == 0) return "no tensors here";
  if (inspection.form == Form::kNxdSet && HoldsLora(inspection.artifact))
    return "the shards of a LoRA adapter, which is not a whole model";
  const std::optional<models::ModelConfig>& config = inspection.artifact.config;
  if (inspection.artifact.config_fault) return inspection.artifact.config_fault->ToString();
  if (!config)
    return "no config.json, and shapes alone do not tell heads and family; name one with --config";
  if (!config->family) return models::NoTableText(*config);
  return "";
}

bool AnyClaim(const InputHints& hints) {
  for (const char* name :
       {"tp", "pp", "vpp", "ep", "kv-multiplier", "qkv", "hw", "style", "fused-qkv"})
    if (hints.Has(name)) return true;
  return false;
}

HardwareSource SourceOf(const NxdState& state, const NxdLayout& layout, const InputHints& hints) {
  if (layout.geometry.kv_multiplier == 1) return HardwareSource::kIrrelevant;
  if (hints.Has("hw")) return HardwareSource::kOptions;
  if (state.sidecar && state.sidecar->claims.hardware) return HardwareSource::kSidecar;
  if (state.mp_record && state.mp_record->claims.hardware) return HardwareSource::kRecord;
  if (layout.replicas == nxd::ReplicaOrder::kAdjacent) return HardwareSource::kReplicas;
  return HardwareSource::kUnknown;
}

// A file or a part of a model may lack parameters; a whole artifact may not.
bool IsWhole(Form form) {
  return form == Form::kHfFolder || form == Form::kNxdSet || form == Form::kRolloutBundle ||
         form == Form::kDcpFolder;
}

void DoesNotFit(Inspection& inspection, const Error& error) {
  inspection.layout.outcome = Outcome::kDoesNotFit;
  inspection.layout.message = error.ToString();
  std::string warning = "the layout does not fit: " + inspection.layout.message;
  if (!error.hint().empty()) warning += "; " + error.hint();
  inspection.warnings.push_back(std::move(warning));
}

// Counts the parameters that are here; places of a part of one are an error.
Status CountParameters(Inspection& inspection, const BoundArtifact& bound) {
  NXDKIT_ASSIGN(const PrimaryPlaces places,
                PrimaryPlaces::Find(bound.params, bound.bound.layout, true));
  inspection.parameters = 0;
  inspection.parameters_are_logical = true;
  LayoutCheck& layout = inspection.layout;
  layout.parameters = bound.params.size();
  std::string first_missing;
  for (uint32_t i = 0; i < bound.params.size(); ++i) {
    if (!places.of(i).empty()) {
      inspection.parameters +=
          static_cast<uint64_t>(ElementCount(bound.params[i].shape).value_or(0));
      continue;
    }
    if (layout.missing_parameters++ == 0) first_missing = bound.params[i].name;
  }
  layout.outcome = Outcome::kFits;
  if (layout.missing_parameters == 0) return OkStatus();
  layout.message = fmt::format("{} of the model's {} parameters are not here, the first is {}",
                               layout.missing_parameters, layout.parameters, first_missing);
  if (IsWhole(inspection.form)) inspection.warnings.push_back(layout.message);
  return OkStatus();
}

void AddFacts(Inspection& inspection, const BoundArtifact& bound, const InputHints& hints) {
  if (inspection.nxd) {
    const NxdState& state = *NxdStateOf(bound.artifact);
    const NxdLayout& layout = *NxdLayoutOf(bound);
    inspection.nxd->geometry = layout.geometry;
    inspection.nxd->replicas = layout.replicas;
    inspection.nxd->hardware = SourceOf(state, layout, hints);
    if (state.sidecar) inspection.nxd->source_digest = state.sidecar->source_digest;
  }
  if (inspection.rollout) {
    const models::ModelConfig& config = bound.model->config;
    inspection.rollout->heads =
        models::RolloutPlacement(config.heads, config.kv_heads, RolloutGeometryOf(bound)->tp);
  }
  // Every rank may hold one of the same name.
  for (const std::string& name : std::set(bound.left_out.begin(), bound.left_out.end()))
    inspection.entries.push_back(name + " (not a parameter; nxd-convert drops it)");
  const std::vector<std::string>& warnings = bound.artifact.warnings;
  for (size_t i = inspection.artifact.warnings.size(); i < warnings.size(); ++i)
    inspection.warnings.push_back(warnings[i]);
}

}  // namespace

Status InspectLayout(Inspection& inspection, const InspectRequest& request) {
  inspection.layout.message = WhyNotChecked(inspection);
  if (!inspection.layout.message.empty()) return OkStatus();
  InputHints hints = request.hints;
  // Names and shapes are the same on both; which one it is, is a fact and no requirement here.
  AssumeHardware(hints);
  // A copy: when the layout does not fit, the tensors are still to be shown.
  Result<BoundArtifact> bound = Bind(inspection.artifact, hints);
  if (!bound.ok() && bound.error().code() == Errc::kUsage && AnyClaim(request.hints))
    return std::move(bound).error();
  if (!bound.ok()) {
    DoesNotFit(inspection, bound.error());
    return OkStatus();
  }
  AddFacts(inspection, *bound, request.hints);
  if (Status counted = CountParameters(inspection, *bound); !counted.ok())
    DoesNotFit(inspection, counted.error());
  return OkStatus();
}

}  // namespace nxdkit::ops
