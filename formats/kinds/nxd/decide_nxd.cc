#include "formats/kinds/nxd/decide_nxd.h"

#include <fmt/core.h>

#include "formats/kinds/decide.h"
#include "formats/kinds/nxd/nxd_options.h"
#include "formats/kinds/nxd/nxd_state.h"
#include "formats/kinds/nxd/plan_optimizer.h"
#include "formats/kinds/table.h"
#include "formats/models/experts.h"
#include "formats/nxd/optimum.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

using models::Hardware;
using nxd::QkvStyle;

// The options of the output, as the user gave them.
struct Asked {
  nxd::LayoutOptions layout;
  std::optional<int> dp;
  std::optional<bool> xser;
  bool training_tag = false;
  std::optional<Hardware> hardware_if_unsaid;
  std::optional<QkvStyle> qkv_if_unsaid;  // of NxD Training's module: --layout-from
  // Whether the output is a training checkpoint of optimum-neuron (formats/nxd/optimum.h); absent:
  // the same as the source for a training tag, false for everything else.
  std::optional<bool> optimum;
};

Asked AskedOf(const OutputOptions& options) {
  Asked asked{LayoutOf(options),
              options.Number("dp"),
              options.Toggle("xser"),
              options.Toggle("training-tag").value_or(false),
              HardwareFromName(options.Text("hw-if-unsaid")),
              QkvFromName(options.Text("qkv-if-unsaid")),
              std::nullopt};
  if (const std::optional<std::string> style = options.Text("style"))
    asked.optimum = *style == "optimum";
  return asked;
}

// The least kv multiplier that NxD needs: 1 if the heads can be divided among the ranks.
int LeastMultiplier(int64_t kv_heads, int64_t tp) {
  return static_cast<int>(tp % kv_heads == 0 && tp > kv_heads ? tp / kv_heads : 1);
}

bool IsXser(const BoundArtifact& source) {
  const nxd::SetStyle style = NxdStateOf(source.artifact)->set.location.style;
  return style == nxd::SetStyle::kV2Xser || style == nxd::SetStyle::kV1Xser;
}

// The form of the tag that a checkpoint by names was made from; nullptr if none is recorded.
const NumberedForm* RecordedForm(const BoundArtifact& source) {
  const auto& optimizer = source.optimizer;
  return source.objects && optimizer && optimizer->form ? &*optimizer->form : nullptr;
}

// Whether a module of the tied model stored its head.
bool StoredHead(const BoundArtifact& source) {
  if (const NumberedForm* form = RecordedForm(source)) return form->stores_head;
  return NxdLayoutOf(source) && StoresHead(source);
}

// Checks the options for a family that can be stored in only one way.
Status CheckPlainFamily(const models::Family& family, const nxd::LayoutOptions& asked,
                        const nxd::Geometry& out) {
  if (!family.training.pipelines && out.pp > 1)
    return Unsupported(
        "how NxD cuts a {} model into pipeline stages is not known: the text of the "
        "family has no line \"training pipelines\"",
        family.model_type);
  if (family.splits_qkv) return OkStatus();
  if (asked.qkv)
    return BadUsage("a {} model has one way to store q, k and v: --qkv does not apply",
                    family.model_type);
  if (out.names != nxd::NameStyle::kHf)
    return Unsupported("NxDT has no {} models: style {} does not apply", family.model_type,
                       NameStyleName(out.names))
        .hint("--style hf names them as NxD does");
  return OkStatus();
}

// Requires the multiplier.
Status DecideQkv(const BoundArtifact& source, const Asked& asked, NxdOutput& output) {
  const models::ModelConfig& config = source.model->config;
  const bool from_nxd = NxdLayoutOf(source) != nullptr;
  nxd::Geometry& out = output.geometry;
  if (asked.layout.qkv && out.names == nxd::NameStyle::kMegatron)
    return BadUsage(
        "with Megatron's names there is one way to store q, k and v: --qkv does not apply");
  if (asked.layout.qkv) {
    out.qkv = *asked.layout.qkv;
  } else if (output.optimum) {
    out.qkv = nxd::OptimumQkv(config, out, from_nxd && nxd::Fuses(out.qkv));
  } else if (out.names == nxd::NameStyle::kMegatron) {
    out.qkv = QkvStyle::kSeparate;
  } else if (asked.qkv_if_unsaid && config.family->splits_qkv) {
    const bool grouped = config.heads != config.kv_heads;
    out.qkv = grouped && asked.qkv_if_unsaid == QkvStyle::kCoalesced ? QkvStyle::kSeparate
                                                                     : *asked.qkv_if_unsaid;
  } else if (!from_nxd || (out.kv_multiplier > 1 && out.qkv != QkvStyle::kFused)) {
    out.qkv = out.kv_multiplier == 1              ? QkvStyle::kSeparate
              : config.family->training.fuses_qkv ? QkvStyle::kFused
                                                  : QkvStyle::kLinear;
    if (config.family->splits_qkv)
      output.notes.push_back(
          fmt::format("q/k/v style: {} (--qkv changes it)", QkvStyleName(out.qkv)));
  }
  return OkStatus();
}

Status DecideHardware(const BoundArtifact& source, const Asked& asked, NxdOutput& output) {
  // The order of heads that are stored once shows nothing. A record of trn2 does; one of trn1 is
  // also written if nobody gave --hw, and does not.
  const NxdState* const state = NxdStateOf(source.artifact);
  const NxdLayout* const from = NxdLayoutOf(source);
  const bool recorded =
      state && state->sidecar && state->sidecar->claims.hardware == Hardware::kTrn2;
  const bool known = from && !output.optimum && (from->geometry.kv_multiplier > 1 || recorded);
  if (asked.layout.hardware)
    output.geometry.hardware = *asked.layout.hardware;
  else if (output.optimum)
    output.geometry.hardware = Hardware::kTrn1;  // the same on all hardware
  else if (asked.hardware_if_unsaid)
    output.geometry.hardware = *asked.hardware_if_unsaid;
  else if (const int64_t heads = source.model->config.heads; heads % output.geometry.tp != 0)
    return models::CannotSplitHeads(heads, output.geometry.tp);
  else if (output.geometry.kv_multiplier > 1 && !known)
    return BadUsage(
        "with kv multiplier {} the sets for trn1 and trn2 differ: say --hw trn1 or --hw trn2",
        output.geometry.kv_multiplier);
  return OkStatus();
}

// The dtype of module weights in a tag made from master weights: as recorded, else the config's.
void DecideModuleDtype(const BoundArtifact& source, NxdOutput& output) {
  if (!source.objects || !source.optimizer || output.dtype || output.downcast) return;
  if (source.optimizer->has_masters_beside) return;  // kept as they are
  const NumberedForm* form = RecordedForm(source);
  output.dtype = form ? form->weights.most : source.artifact.config->dtype.value_or(Dtype::kBF16);
  if (form)
    for (size_t i = 0; i < source.model_params(); ++i)
      output.own_dtypes.push_back(form->weights.Of(source.params[i].name));
  else
    output.notes.push_back(fmt::format(
        "weights are written as {}, their master weights keep their own dtype (--dtype)",
        Name(*output.dtype)));
}

// Whether each tensor gets a file of its own; optimum-neuron's trainer does so by default.
bool DecideXser(const BoundArtifact& source, const Asked& asked, const NxdOutput& output) {
  if (asked.xser) return *asked.xser;
  if (asked.training_tag && NxdLayoutOf(source)) return IsXser(source);
  return output.optimum;
}

bool HasSparseLayer(const models::ModelConfig& config) {
  for (int64_t layer = 0; layer < config.layers; ++layer)
    if (config.IsSparse(layer)) return true;
  return false;
}

// Sizes, names and the order of heads.
Status DecideGeometry(const BoundArtifact& source, const OutputOptions& options, const Asked& asked,
                      NxdOutput& output) {
  const models::ModelConfig& config = source.model->config;
  nxd::Geometry& out = output.geometry;
  const NxdLayout* const from = NxdLayoutOf(source);
  if (from) out = from->geometry;
  if (!from || !asked.training_tag) out.fused_gate_up = true;
  if (const NumberedForm* form = RecordedForm(source)) out.fused_gate_up = form->fused_gate_up;
  NXDKIT_ASSIGN(out.tp, DecideTp(source, kNxd, options));
  const bool same_tp = from && out.tp == from->geometry.tp;
  out.pp = asked.layout.pp.value_or(out.pp);
  out.vpp = asked.layout.vpp.value_or(out.vpp);
  // Expert parallel ranks of a dense model have the same tensors, or none.
  out.ep = asked.layout.ep.value_or(config.experts > 0 ? out.ep : 1);
  out.names = asked.layout.names.value_or(out.names);
  if (asked.layout.kv_multiplier)
    out.kv_multiplier = *asked.layout.kv_multiplier;
  else if (!same_tp && config.family->splits_qkv)
    out.kv_multiplier = LeastMultiplier(config.kv_heads, out.tp);
  NXDKIT_TRY(CheckPlainFamily(*config.family, asked.layout, out));
  const NxdState* const state = NxdStateOf(source.artifact);
  const bool has_record = state && state->mp_record;
  output.optimum = asked.optimum.value_or(asked.training_tag && has_record);
  if (output.optimum) out.fused_gate_up = true;
  NXDKIT_TRY(DecideQkv(source, asked, output));
  NXDKIT_TRY(DecideHardware(source, asked, output));
  if (output.optimum)
    NXDKIT_TRY(nxd::CheckOptimum(config, out));
  else if (has_record)
    output.notes.push_back(
        "mp_metadata_pp_rank_*.json is not written: optimum-neuron cannot consolidate the output "
        "(--style optimum)");
  return OkStatus();
}

// Refuses layouts that the model cannot have.
Status CheckGeometry(const models::ModelConfig& config, const nxd::Geometry& out) {
  if (out.names == nxd::NameStyle::kMegatron && config.labels > 0)
    return Unsupported("how NxDT's Megatron models name a score head is not known");
  NXDKIT_TRY(nxd::HeadPlacement(config, out));
  NXDKIT_TRY(nxd::PipelineRank(0, config.layers, out.pp, out.vpp));
  NXDKIT_TRY(models::CheckExpertParts(config, out.tp, out.ep));
  if (out.names == nxd::NameStyle::kNxdt && config.experts == 0)
    return BadUsage("--style nxdt names the experts of a model; a {} model has none",
                    config.model_type)
        .hint("NxDT's names of its other Hugging Face models are those of --style hf");
  return OkStatus();
}

// Refuses combinations that a state or an adapter does not allow.
Status CheckContents(const BoundArtifact& source, const NxdOutput& output) {
  const int ep = output.geometry.ep;
  if (source.lora && output.optimum)
    return Unsupported(
        "adapters in optimum-neuron's training form cannot be written: --style optimum is for "
        "models");
  if (source.lora && ep > 1)
    return Unsupported("how NxD stores an adapter on expert parallel ranks is not known");
  if (source.optimizer && ep > 1)
    return Unsupported("optimizer state spread over expert parallel ranks is not supported")
        .hint("--no-optimizer leaves the optimizer's state out");
  return OkStatus();
}

Status DecideAdapter(const BoundArtifact& adapter, const OutputOptions& options,
                     NxdOutput& output) {
  if (output.xser)
    return BadUsage("NxD loads only adapters without references: --xser cannot be used")
        .in(adapter.artifact.path);
  // Parallel layers have adapters in F32, whatever the base's dtype.
  if (!options.dtype) output.dtype = options.downcast ? Dtype::kBF16 : Dtype::kF32;
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<Output>> DecideNxd(const BoundArtifact& source,
                                          const OutputOptions& options) {
  NXDKIT_TRY(RequireModel(source));
  const models::ModelConfig& config = source.model->config;
  const Asked asked = AskedOf(options);
  std::unique_ptr<Output> decided = std::make_unique<NxdOutput>(options);
  auto& output = static_cast<NxdOutput&>(*decided);
  NXDKIT_TRY(DecideGeometry(source, options, asked, output));
  nxd::Geometry& out = output.geometry;
  output.training_tag = asked.training_tag;
  output.xser = DecideXser(source, asked, output);
  output.aliases = config.family->training.stores_aliases || (output.optimum && config.tied) ||
                   (asked.training_tag && config.tied && StoredHead(source));
  NXDKIT_TRY(CheckGeometry(config, out));
  // Without experts in any layer the two styles have the same names, and the set does not tell
  // more.
  if (out.names == nxd::NameStyle::kNxdt && !HasSparseLayer(config))
    out.names = nxd::NameStyle::kHf;
  NXDKIT_TRY(DecideOptimizer(source, asked.dp, output));
  DecideModuleDtype(source, output);
  NXDKIT_TRY(CheckContents(source, output));
  if (out.names == nxd::NameStyle::kMegatron && config.kv_heads > out.tp)
    output.notes.push_back(fmt::format(
        "{} key heads per rank are stored in block order: right for megatron_legacy=True only",
        config.kv_heads / out.tp));
  if (source.lora) NXDKIT_TRY(DecideAdapter(source, options, output));
  return decided;
}

}  // namespace nxdkit::kinds
