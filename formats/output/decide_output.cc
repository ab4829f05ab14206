#include "formats/output/decide_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "formats/artifact/open_file.h"
#include "formats/models/experts.h"
#include "formats/nxd/optimum.h"
#include "formats/output/plan_dcp.h"
#include "formats/output/plan_lora.h"
#include "formats/output/plan_optimizer.h"
#include "formats/rollout/cpu_plan.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/paths.h"

namespace nxdkit::ops {
namespace {

using models::Hardware;
using nxd::QkvStyle;

Error NeedTp(Kind kind) {
  return BadUsage("--to {} needs --tp: the source does not say it", KindName(kind));
}

// Only hf and torch go without knowing the model.
Error NeedFamily(const BoundArtifact& source) {
  if (source.artifact.config)
    return MakeModel(*source.artifact.config).error().in(source.artifact.config_path);
  return NotFound("no config.json: the tensors alone do not tell heads, layers and family")
      .in(source.artifact.path)
      .hint("name one with --config");
}

std::optional<int> SourceTp(const BoundArtifact& source) {
  if (source.artifact.kind == Kind::kNxd) return source.nxd_geometry.tp;
  if (source.artifact.kind == Kind::kRollout) return source.rollout_geometry.tp;
  return std::nullopt;
}

// The kv multiplier that NxD needs at least: 1 when ranks can share the heads out.
int LeastMultiplier(int64_t kv_heads, int64_t tp) {
  return static_cast<int>(tp % kv_heads == 0 && tp > kv_heads ? tp / kv_heads : 1);
}

bool IsXser(const BoundArtifact& source) {
  const nxd::SetStyle style = source.artifact.set->location.style;
  return style == nxd::SetStyle::kV2Xser || style == nxd::SetStyle::kV1Xser;
}

// That of the tag that a distributed checkpoint was made of; nullptr: there is no record of one.
const NumberedForm* RecordedForm(const BoundArtifact& source) {
  const auto& optimizer = source.optimizer;
  const bool is_dcp = source.artifact.kind == Kind::kDcp;
  return is_dcp && optimizer && optimizer->form ? &*optimizer->form : nullptr;
}

// Whether a module of the tied model stored its head.
bool StoredHead(const BoundArtifact& source) {
  if (const NumberedForm* form = RecordedForm(source)) return form->stores_head;
  return source.artifact.kind == Kind::kNxd && StoresHead(source);
}

// Of a family that has one way to be stored.
Status CheckPlainFamily(const models::Family& family, const OutputOptions& options,
                        const nxd::Geometry& out) {
  if (!family.nxd_pipelines && out.pp > 1)
    return Unsupported("how NxD cuts a {} model into pipeline stages is not known",
                       family.model_type);
  if (SplitsQkv(family)) return OkStatus();
  if (options.qkv)
    return BadUsage("a {} model has one way to store q, k and v: --qkv does not apply",
                    family.model_type);
  if (out.names != nxd::NameStyle::kHf)
    return Unsupported("NxDT has no {} models: --style {} names none", family.model_type,
                       NameStyleName(out.names));
  return OkStatus();
}

bool Fuses(QkvStyle style) { return style == QkvStyle::kFused || style == QkvStyle::kCoalesced; }

// The multiplier is decided.
Status DecideQkv(const BoundArtifact& source, const OutputOptions& options, OutputSpec& spec) {
  const models::ModelConfig& config = source.model->config;
  const bool from_nxd = source.artifact.kind == Kind::kNxd;
  nxd::Geometry& out = spec.nxd;
  if (options.qkv && out.names == nxd::NameStyle::kMegatron)
    return BadUsage("--style megatron has one way to store q, k and v: --qkv does not apply");
  if (options.qkv) {
    out.qkv = *options.qkv;
  } else if (spec.optimum) {
    out.qkv = nxd::OptimumQkv(config, out, from_nxd && Fuses(out.qkv));
  } else if (out.names == nxd::NameStyle::kMegatron) {
    out.qkv = QkvStyle::kSeparate;
  } else if (!from_nxd || (out.kv_multiplier > 1 && out.qkv != QkvStyle::kFused)) {
    out.qkv = out.kv_multiplier == 1         ? QkvStyle::kSeparate
              : config.family->nxd_fuses_qkv ? QkvStyle::kFused
                                             : QkvStyle::kLinear;
    if (SplitsQkv(*config.family))
      spec.notes.push_back(
          fmt::format("q/k/v style: {} (--qkv says otherwise)", QkvStyleName(out.qkv)));
  }
  return OkStatus();
}

Status DecideHardware(const BoundArtifact& source, const OutputOptions& options, OutputSpec& spec) {
  // The order of heads that are stored once tells nothing. A record of trn2 does; one of trn1 is
  // also written where nobody had said --hw, and does not.
  const std::optional<nxd::Sidecar>& record = source.artifact.sidecar;
  const bool recorded = record && record->claims.hardware == Hardware::kTrn2;
  const bool known = source.artifact.kind == Kind::kNxd && !spec.optimum &&
                     (source.nxd_geometry.kv_multiplier > 1 || recorded);
  if (options.hardware)
    spec.nxd.hardware = *options.hardware;
  else if (spec.optimum)
    spec.nxd.hardware = Hardware::kTrn1;  // on all hardware
  else if (options.hardware_if_unsaid)
    spec.nxd.hardware = *options.hardware_if_unsaid;
  else if (spec.nxd.kv_multiplier > 1 && !known)
    return BadUsage(
        "with kv multiplier {} the sets for trn1 and trn2 differ: say --hw trn1 or --hw trn2",
        spec.nxd.kv_multiplier);
  return OkStatus();
}

// Of a tag that is made of master weights: that of its record, or of its configuration.
void DecideModuleDtype(const BoundArtifact& source, OutputSpec& spec) {
  if (source.artifact.kind != Kind::kDcp || !source.optimizer || spec.dtype || spec.downcast)
    return;
  const NumberedForm* form = RecordedForm(source);
  spec.dtype = form ? form->weights.most : source.artifact.config->dtype.value_or(Dtype::kBF16);
  if (form)
    for (size_t i = 0; i < source.model_params(); ++i)
      spec.own_dtypes.push_back(form->weights.Of(source.params[i].name));
  else
    spec.notes.push_back(fmt::format(
        "weights are written as {}, the master weights beside them keep their own (--dtype)",
        Name(*spec.dtype)));
}

// Whether each tensor gets a file of its own; optimum-neuron's trainer does so by default.
bool DecideXser(const BoundArtifact& source, const OutputOptions& options, const OutputSpec& spec) {
  if (options.xser) return *options.xser;
  if (options.training_tag && source.artifact.kind == Kind::kNxd) return IsXser(source);
  return spec.optimum;
}

bool HasSparseLayer(const models::ModelConfig& config) {
  for (int64_t layer = 0; layer < config.layers; ++layer)
    if (config.IsSparse(layer)) return true;
  return false;
}

Status DecideNxd(const BoundArtifact& source, const OutputOptions& options, OutputSpec& spec) {
  if (!source.model) return NeedFamily(source);
  const models::ModelConfig& config = source.model->config;
  nxd::Geometry& out = spec.nxd;
  const bool from_nxd = source.artifact.kind == Kind::kNxd;
  if (from_nxd) out = source.nxd_geometry;
  if (!from_nxd || !options.training_tag) out.fused_gate_up = true;
  if (const NumberedForm* form = RecordedForm(source)) out.fused_gate_up = form->fused_gate_up;
  const std::optional<int> tp = options.tp ? options.tp : SourceTp(source);
  if (!tp) return NeedTp(Kind::kNxd);
  const bool same_tp = from_nxd && *tp == source.nxd_geometry.tp;
  out.tp = *tp;
  out.pp = options.pp.value_or(out.pp);
  out.vpp = options.vpp.value_or(out.vpp);
  // Of a dense model every expert parallel rank holds the same, or nothing.
  out.ep = options.ep.value_or(config.experts > 0 ? out.ep : 1);
  out.names = options.names.value_or(out.names);
  if (options.kv_multiplier)
    out.kv_multiplier = *options.kv_multiplier;
  else if (!same_tp)
    out.kv_multiplier = LeastMultiplier(config.kv_heads, out.tp);
  const models::Family& family = *config.family;
  NXDKIT_TRY(CheckPlainFamily(family, options, out));
  spec.optimum =
      options.optimum.value_or(options.training_tag && source.artifact.mp_record.has_value());
  if (spec.optimum) out.fused_gate_up = true;
  NXDKIT_TRY(DecideQkv(source, options, spec));
  NXDKIT_TRY(DecideHardware(source, options, spec));
  if (spec.optimum)
    NXDKIT_TRY(nxd::CheckOptimum(config, out));
  else if (source.artifact.mp_record)
    spec.notes.push_back(
        "mp_metadata_pp_rank_*.json is not written: optimum-neuron cannot consolidate the output "
        "(--style optimum)");
  spec.training_tag = options.training_tag;
  spec.xser = DecideXser(source, options, spec);
  spec.aliases = family.nxd_stores_aliases || (spec.optimum && config.tied) ||
                 (options.training_tag && config.tied && StoredHead(source));
  if (out.names == nxd::NameStyle::kMegatron && config.labels > 0)
    return Unsupported("how NxDT's Megatron models name a score head is not known");
  NXDKIT_TRY(nxd::HeadPlacement(config, out));
  NXDKIT_TRY(nxd::PipelineRank(0, config.layers, out.pp, out.vpp));
  NXDKIT_TRY(models::CheckExpertParts(config, out.tp, out.ep));
  if (out.names == nxd::NameStyle::kNxdt && config.experts == 0)
    return BadUsage("--style nxdt names the experts of a model; a {} model has none",
                    config.model_type)
        .hint("NxDT's names of its other Hugging Face models are those of --style hf");
  // Where no layer has experts the two name alike, and the set will show no more than that.
  if (out.names == nxd::NameStyle::kNxdt && !HasSparseLayer(config))
    out.names = nxd::NameStyle::kHf;
  NXDKIT_TRY(DecideOptimizer(source, options, spec));
  DecideModuleDtype(source, spec);
  if (source.lora && spec.optimum)
    return Unsupported(
        "how optimum-neuron stores the adapters of a training run is not written: --style optimum "
        "is for models");
  if (source.lora && out.ep > 1)
    return Unsupported("how NxD stores an adapter on expert parallel ranks is not known");
  if (source.optimizer && out.ep > 1)
    return Unsupported("optimizer state spread over expert parallel ranks is not supported")
        .hint("--no-optimizer leaves the optimizer's state out");
  if (out.names == nxd::NameStyle::kMegatron && config.kv_heads > out.tp)
    spec.notes.push_back(fmt::format(
        "{} key heads per rank are stored in block order: right for megatron_legacy=True only",
        config.kv_heads / out.tp));
  return OkStatus();
}

constexpr char kAgreeHint[] = "leave the option out, or compile a bundle for it";

template <typename T>
Status Agree(const char* option, const std::optional<T>& asked, const T& bundle,
             const std::string& path) {
  if (!asked || *asked == bundle) return OkStatus();
  return BadUsage("{} {} was asked for, but the bundle was compiled for {}", option, *asked, bundle)
      .in(path)
      .hint(kAgreeHint);
}

Status AgreeOnText(const char* option, const std::optional<std::string>& asked,
                   const std::string& bundle, const std::string& path) {
  if (!asked || *asked == bundle) return OkStatus();
  return BadUsage("{} {} was asked for, but the bundle says \"{}\"", option, *asked, bundle)
      .in(path)
      .hint(kAgreeHint);
}

// Only a bundle that has all its shards can have them replaced.
Status CheckRefreshable(const rollout::Bundle& bundle) {
  if (bundle.shards.empty())
    return Unsupported("the bundle has no rank shards that could be replaced")
        .in(bundle.folder)
        .hint("make a bundle that has some with --bundle");
  if (bundle.weights_link == bundle.folder)
    return Unsupported(
               "the rank shards lie in the bundle itself, expected a folder weights, which can be "
               "switched")
        .in(bundle.folder);
  if (static_cast<int64_t>(bundle.shards.size()) != bundle.config->tp)
    return Unsupported("the bundle holds {} of {} ranks; a part cannot be refreshed",
                       bundle.shards.size(), bundle.config->tp)
        .in(bundle.weights_folder);
  return OkStatus();
}

Status TakeBundle(const std::string& path, const OutputOptions& options, OutputSpec& spec) {
  NXDKIT_ASSIGN(rollout::Bundle bundle, rollout::OpenBundle(path, OpenTensorFile));
  const std::string file = JoinPath(path, "neuron_config.json");
  if (!bundle.config) return NotFound("the bundle has no neuron_config.json").in(path);
  if (bundle.blobs.empty() && !options.only_weights)
    return NotFound("the bundle has no compiled blob (model.pt)")
        .in(path)
        .hint(bundle.has_cpu_plan
                  ? "it is one for the CPU: neuron-export --target cpu makes another"
                  : "");
  if (!bundle.config->unsupported.empty())
    return Unsupported("shards for {} have another layout, which this program does not know",
                       bundle.config->unsupported.front())
        .in(file);
  const rollout::NeuronConfig& config = *bundle.config;
  if (options.only_weights) NXDKIT_TRY(CheckRefreshable(bundle));
  NXDKIT_TRY(Agree("--tp", options.tp, config.tp, file));
  NXDKIT_TRY(Agree("--bs", options.batch_size, config.batch_size, file));
  NXDKIT_TRY(Agree("--seq", options.sequence_length, config.sequence_length, file));
  if (options.fused_qkv && *options.fused_qkv != config.fused_qkv)
    return BadUsage("--{}fused-qkv was asked for, but the bundle was compiled with q, k and v {}",
                    *options.fused_qkv ? "" : "no-", config.fused_qkv ? "fused" : "apart")
        .in(file)
        .hint(kAgreeHint);
  if (options.on_device_sampling && *options.on_device_sampling != config.on_device_sampling)
    return BadUsage(
               "--{}on-device-sampling was asked for, but the bundle was compiled to sample {}",
               *options.on_device_sampling ? "" : "no-",
               config.on_device_sampling ? "on the device" : "on the host")
        .in(file)
        .hint(kAgreeHint);
  NXDKIT_TRY(AgreeOnText("--optimum-version", options.optimum_version, config.stamp.optimum, file));
  NXDKIT_TRY(
      AgreeOnText("--compiler-version", options.compiler_version, config.stamp.compiler, file));
  if (options.flavor && *options.flavor != config.flavor)
    return BadUsage("--flavor {} was asked for, but the bundle is of flavor {}",
                    FlavorName(*options.flavor), FlavorName(config.flavor))
        .in(file)
        .hint(kAgreeHint);
  const std::optional<Dtype> dtype = DtypeFromTorchName(config.torch_dtype);
  if (!dtype) return Unsupported("torch_dtype \"{}\" is unknown", config.torch_dtype).in(file);
  if (options.dtype && *options.dtype != *dtype)
    return BadUsage("--dtype {} was asked for, but the bundle was compiled for {}",
                    TorchName(*options.dtype), config.torch_dtype)
        .in(file)
        .hint(kAgreeHint);
  spec.dtype = dtype;
  spec.neuron = config;
  spec.neuron_text = bundle.config_text;
  spec.bundle = std::move(bundle);
  return OkStatus();
}

// The one dtype of a bundle's weights when nobody names it: that of the source, if it has one.
Result<Dtype> CommonDtype(const BoundArtifact& source, bool downcast) {
  const auto lowered = [&](Dtype dtype) { return downcast ? Downcast(dtype) : dtype; };
  std::optional<Dtype> common;
  const BoundArtifact& own = source.merged ? *source.base : source;
  for (const StoredTensor& stored : own.bound.stored) {
    if (!Info(stored.dtype).floating) continue;
    const Dtype dtype = lowered(stored.dtype);
    if (common && *common != dtype) {
      if (source.artifact.config && source.artifact.config->dtype)
        return lowered(*source.artifact.config->dtype);
      return BadUsage("the source mixes {} and {}; a bundle has one dtype", Name(*common),
                      Name(dtype))
          .hint("name it with --dtype");
    }
    common = dtype;
  }
  return common.value_or(Dtype::kBF16);
}

bool IsRounded(Dtype from, Dtype to) {
  const bool is_exact =
      from == to || to == Dtype::kF64 || (to == Dtype::kF32 && Info(from).bits < 32);
  return Info(from).floating && !is_exact;
}

// The dtype of a bundle was chosen when it was compiled, not for these weights.
void NoteRounding(const BoundArtifact& source, OutputSpec& spec) {
  std::map<Dtype, size_t> rounded;
  const BoundArtifact& own = source.merged ? *source.base : source;
  for (const StoredTensor& stored : own.bound.stored)
    if (IsRounded(stored.dtype, *spec.dtype)) ++rounded[stored.dtype];
  for (const auto& [dtype, count] : rounded)
    spec.notes.push_back(
        fmt::format("weights are {} and the bundle's dtype is {}: {} tensor{} rounded", Name(dtype),
                    Name(*spec.dtype), count, count == 1 ? " is" : "s are"));
}

// config.json beside the output: as it was, but for the dtype, which loaders go by.
Status DecideConfig(const BoundArtifact& source, OutputSpec& spec) {
  const Artifact& artifact = source.artifact;
  if (!artifact.config && spec.kind == Kind::kHf)
    spec.notes.push_back(
        "the source has no config.json: without one the model cannot be loaded or converted "
        "further (--config)");
  if (!artifact.config || !artifact.config->dtype) return OkStatus();
  const Dtype before = *artifact.config->dtype;
  const Dtype after = spec.dtype.value_or(spec.downcast ? Downcast(before) : before);
  if (after == before) return OkStatus();
  NXDKIT_ASSIGN(spec.config_text, models::WithDtype(artifact.config_text, after));
  return OkStatus();
}

bool SamplesOnDevice(const models::Family& family, const rollout::NeuronConfig& neuron) {
  if (neuron.flavor == rollout::Flavor::kNxdi) return false;  // its default
  if (family.optimum_sampling == models::OptimumSampling::kNotAtTwoRanks)
    return neuron.tp != 2 || neuron.batch_size == 1;
  return family.optimum_sampling == models::OptimumSampling::kOnDevice;
}

// As Python's packages are versioned: "0.4.6.dev4", "2.21.33363.0+82129205".
Status CheckVersion(std::string_view option, const std::optional<std::string>& version) {
  if (!version) return OkStatus();
  const bool good = !version->empty() && version->front() >= '0' && version->front() <= '9' &&
                    std::ranges::all_of(*version, [](char c) {
                      return IsAlnum(c) || c == '.' || c == '+' || c == '-' || c == '_' || c == '!';
                    });
  if (good) return OkStatus();
  return BadUsage(
      "{} \"{}\" is not a version such as {}", option, EscapeControl(*version),
      option == "--optimum-version" ? rollout::kOptimumVersion : rollout::kCompilerVersion);
}

// The versions that the loader will compare with its own: as asked for; else those of the first
// environment that has both packages, or one; else those of the bundle that is converted. Ours are
// those of one release, and few machines have just that.
Status DecideStamp(const OutputOptions& options, OutputSpec& spec) {
  rollout::VersionStamp& stamp = spec.neuron.stamp;
  if (spec.neuron.flavor == rollout::Flavor::kNxdi || options.cpu_plan) {
    if (options.optimum_version || options.compiler_version)
      return BadUsage("--optimum-version and --compiler-version: {} carries no versions",
                      options.cpu_plan ? "a bundle for our own engine" : "a bundle of NxDI");
    stamp = {};  // NxDI compares none; our own engine is no vendor's
    return OkStatus();
  }
  rollout::Installation found;
  for (const rollout::Installation& at : options.installations)
    if (found.folder.empty() || (!at.optimum.empty() && !at.compiler.empty() &&
                                 (found.optimum.empty() || found.compiler.empty())))
      found = at;
  NXDKIT_TRY(CheckVersion("--optimum-version", options.optimum_version));
  NXDKIT_TRY(CheckVersion("--compiler-version", options.compiler_version));
  std::vector<std::string> unknown;
  const auto decide = [&](const std::optional<std::string>& asked, const std::string& installed,
                          const char* key, const char* ours, std::string& out) {
    if (asked) out = *asked;
    if (!asked && !installed.empty()) out = installed;
    if (!out.empty()) return;
    out = ours;
    unknown.push_back(fmt::format("{} {}", key, ours));
  };
  decide(options.optimum_version, found.optimum, "optimum_neuron_version", rollout::kOptimumVersion,
         stamp.optimum);
  decide(options.compiler_version, found.compiler, "neuronxcc_version", rollout::kCompilerVersion,
         stamp.compiler);
  if (!unknown.empty())
    spec.warnings.push_back(fmt::format(
        "neuron_config.json says {}: optimum-neuron loads the bundle only where it, and "
        "neuronx-cc, are of just these versions, and {} (--optimum-version, --compiler-version)",
        fmt::join(unknown, " and "),
        found.editable ? fmt::format("that in {} is editable, of an unknown version", found.folder)
                       : "none of them is installed here"));
  if (options.compiler_version && options.compiler_version->find('+') == std::string::npos)
    spec.warnings.push_back(
        fmt::format("--compiler-version {} has no +hash, as neuronx-cc's own versions have: the "
                    "loader compares "
                    "all of it",
                    *options.compiler_version));
  if (found.editable && !options.optimum_version && unknown.empty())
    spec.warnings.push_back(
        fmt::format("optimum-neuron in {} is editable, of an unknown version: neuron_config.json "
                    "says {}, which the loader compares (--optimum-version)",
                    found.folder, stamp.optimum));
  const bool both = !found.optimum.empty() && !found.compiler.empty();
  if (both && !options.optimum_version && !options.compiler_version)
    spec.notes.push_back(fmt::format("versions for the loader, as installed in {}: {}, {}",
                                     found.folder, stamp.optimum, stamp.compiler));
  return OkStatus();
}

Status DecideRollout(const BoundArtifact& source, const OutputOptions& asked, OutputSpec& spec) {
  if (!source.model) return NeedFamily(source);
  NXDKIT_TRY(rollout::CheckFamily(source.model->config));
  OutputOptions options = asked;
  if (options.downcast) {
    NXDKIT_ASSIGN(options.dtype, CommonDtype(source, true));
  }
  if (options.bundle) {
    NXDKIT_TRY(TakeBundle(*options.bundle, options, spec));
    if (!options.dtype) NoteRounding(source, spec);
  } else {
    const bool from_rollout = source.artifact.kind == Kind::kRollout;
    if (from_rollout && source.artifact.bundle->config)
      spec.neuron = *source.artifact.bundle->config;
    const std::optional<int> tp = options.tp ? options.tp : SourceTp(source);
    if (!tp) return NeedTp(Kind::kRollout);
    rollout::NeuronConfig& neuron = spec.neuron;
    neuron.local_ranks = neuron.tp = *tp;
    neuron.flavor = options.flavor.value_or(neuron.flavor);
    if (neuron.flavor == rollout::Flavor::kOptimum)  // has neither
      neuron.vocab_parallel = neuron.transposed_qkv = neuron.transposed_output =
          neuron.transposed_mlp = false;
    neuron.batch_size = options.batch_size.value_or(neuron.batch_size);
    neuron.sequence_length =
        options.sequence_length.value_or(from_rollout ? neuron.sequence_length : 4096);
    const bool by_default = from_rollout ? neuron.fused_qkv
                                         : neuron.flavor == rollout::Flavor::kOptimum &&
                                               source.model->config.family->optimum_fuses_qkv;
    neuron.fused_qkv = options.fused_qkv.value_or(by_default);
    neuron.transposed_qkv &= neuron.fused_qkv;
    neuron.on_device_sampling = options.on_device_sampling.value_or(
        from_rollout && source.artifact.bundle->config
            ? neuron.on_device_sampling
            : SamplesOnDevice(*source.model->config.family, neuron));
    NXDKIT_TRY(DecideStamp(options, spec));
    NXDKIT_ASSIGN(const Dtype dtype,
                  options.dtype ? Result<Dtype>(*options.dtype) : CommonDtype(source, false));
    spec.dtype = dtype;
    neuron.torch_dtype = TorchName(dtype);
    NXDKIT_ASSIGN(spec.neuron_text, WriteNeuronConfig(neuron, source.artifact.config_text));
    if (options.cpu_plan) {
      // It is bound to config.json as it will be written.
      NXDKIT_TRY(DecideConfig(source, spec));
      const std::string& text =
          spec.config_text.empty() ? source.artifact.config_text : spec.config_text;
      NXDKIT_ASSIGN(const rollout::CpuPlan plan,
                    rollout::MakeCpuPlan(source.model->config, text, neuron, spec.neuron_text));
      spec.cpu_plan_text = rollout::WriteCpuPlan(plan);
    } else {
      spec.notes.push_back(
          "the compiled blob (model.pt) is missing: compile one for this neuron_config.json, or "
          "take one with --bundle");
    }
  }
  const models::ModelConfig& config = source.model->config;
  const models::RolloutHeads heads =
      models::RolloutPlacement(config.heads, config.kv_heads, spec.neuron.tp);
  if (heads.strategy == models::GqaStrategy::kConvertToMha && heads.padded_kv != config.kv_heads &&
      config.heads != config.kv_heads)
    spec.notes.push_back(fmt::format(
        "key heads become {} of {} (convert-to-mha): the shards are right, but {} cannot make them "
        "itself from a "
        "Hugging Face checkpoint",
        heads.padded_kv, config.kv_heads,
        spec.neuron.flavor == rollout::Flavor::kNxdi ? "NxDI" : "an older optimum-neuron"));
  if (spec.neuron.fused_qkv && config.qkv_bias && spec.neuron.flavor == rollout::Flavor::kOptimum)
    return Unsupported(
               "optimum-neuron does not fuse q/k/v biases: a fused bundle of this model cannot be "
               "loaded")
        .hint("use --no-fused-qkv, or --flavor nxdi");
  return OkStatus();
}

}  // namespace

Result<OutputSpec> DecideOutput(const BoundArtifact& source, Kind kind,
                                const OutputOptions& options) {
  OutputSpec spec;
  spec.kind = kind;
  spec.only_weights = options.only_weights;
  spec.dtype = options.dtype;
  spec.downcast = options.downcast;
  spec.max_shard_bytes = options.max_shard_bytes;
  if (kind == Kind::kNxd) NXDKIT_TRY(DecideNxd(source, options, spec));
  if (kind == Kind::kRollout && !source.lora) NXDKIT_TRY(DecideRollout(source, options, spec));
  if (kind == Kind::kDcp && !source.lora) NXDKIT_TRY(DecideDcp(source, options, spec));
  if (source.lora)
    NXDKIT_TRY(DecideLora(source, options, spec));
  else
    NXDKIT_TRY(DecideConfig(source, spec));
  return spec;
}

}  // namespace nxdkit::ops
