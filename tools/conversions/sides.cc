#include "tools/conversions/sides.h"

#include <fmt/core.h>

#include "formats/hf/split.h"
#include "formats/nxd/nxdt_config.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"
#include "lib/system/process.h"
#include "lib/system/signals.h"

namespace nxdkit::tool {
namespace {

using ops::Kind;

// The words were checked by the option table.
std::optional<nxd::QkvStyle> QkvOf(const LayoutArgs& args) {
  if (!args.qkv) return std::nullopt;
  for (nxd::QkvStyle style : {nxd::QkvStyle::kSeparate, nxd::QkvStyle::kLinear,
                              nxd::QkvStyle::kFused, nxd::QkvStyle::kCoalesced})
    if (*args.qkv == nxd::QkvStyleName(style)) return style;
  return std::nullopt;
}

std::optional<models::Hardware> HardwareOf(const LayoutArgs& args) {
  if (!args.hw) return std::nullopt;
  return *args.hw == "trn2" ? models::Hardware::kTrn2 : models::Hardware::kTrn1;
}

std::optional<nxd::NameStyle> NamesOf(const LayoutArgs& args) {
  if (!args.style) return std::nullopt;
  // optimum-neuron's checkpoints have Hugging Face's names.
  return *args.style == "optimum" ? nxd::NameStyle::kHf : nxd::NameStyleFromName(*args.style);
}

// Of a distributed checkpoint the output has its own names.
Status CheckStyle(const LayoutArgs& args, Kind to) {
  if (!args.style || *args.style == "hf") return OkStatus();
  const bool is_dcp = dcp::StyleFromName(*args.style).has_value();
  if (is_dcp == (to == Kind::kDcp)) return OkStatus();
  return BadUsage("--style {} names the parameters of {}, the output is {}", *args.style,
                  is_dcp ? "a torch distributed checkpoint" : "an NxD set", ops::KindName(to));
}

// The mesh that tensors are cut over.
Result<dcp::Mesh> MeshOf(const LayoutArgs& args) {
  if (args.mesh) return dcp::ParseMesh(*args.mesh);
  if (args.chunks) return dcp::ParseMesh("dp=" + std::to_string(*args.chunks));
  return dcp::Mesh();
}

Status CheckMeaning(const LayoutArgs& args, Kind from, Kind to) {
  unsigned sides = 0;
  if (from == Kind::kNxd || from == Kind::kDelta) sides |= kNxdInput;  // of a delta: its base
  if (from == Kind::kRollout) sides |= kRolloutInput;
  if (from == Kind::kHf || from == Kind::kDelta) sides |= kHfInput;
  if (to == Kind::kNxd) sides |= kNxdOutput;
  if (to == Kind::kRollout) sides |= kRolloutOutput;
  if (to == Kind::kHf) sides |= kHfOutput;
  if (to == Kind::kDcp) sides |= kDcpOutput;
  if (const std::optional<std::string> option = OptionWithoutMeaning(args, sides))
    return BadUsage("{} does not apply to a conversion from {} to {}", *option, ops::KindName(from),
                    ops::KindName(to));
  NXDKIT_TRY(CheckStyle(args, to));
  if (args.chunks && args.mesh)
    return BadUsage("--chunks {} is short for --mesh dp={}: give one of them", *args.chunks,
                    *args.chunks);
  if (args.nodes && !args.instance)
    return BadUsage("--nodes says how many there are of --instance, which is missing");
  if (args.seq && to == Kind::kNxd && !args.instance)
    return BadUsage("--seq of an NxD set is that of training for --instance, which is missing");
  return OkStatus();
}

// Of --instance, with which --hw must go together.
Result<models::Hardware> HardwareOfInstance(const LayoutArgs& args) {
  NXDKIT_ASSIGN(const hardware::Instance* const instance, hardware::FindInstance(*args.instance));
  if (args.hw && *args.hw != instance->platform)
    return BadUsage("hw {} does not go with --instance {}, which has {} devices", *args.hw,
                    instance->name, instance->platform)
        .hint("--hw, or --layout-from, says which of the two the set is for");
  return instance->platform == "trn2" ? models::Hardware::kTrn2 : models::Hardware::kTrn1;
}

constexpr std::string_view kDowncast = "downcast";

Result<std::optional<Dtype>> DtypeOf(const LayoutArgs& args) {
  if (!args.dtype || *args.dtype == "keep" || *args.dtype == kDowncast)
    return std::optional<Dtype>();
  return DtypeFromTorchName(*args.dtype);
}

}  // namespace

std::vector<rollout::Installation> InstalledHere() {
  return rollout::FindInstallations({.virtual_env = EnvironmentValue("VIRTUAL_ENV"),
                                     .conda_prefix = EnvironmentValue("CONDA_PREFIX"),
                                     .path = EnvironmentValue("PATH")});
}

ops::InputHints HintsOf(const LayoutArgs& args) {
  ops::InputHints hints;
  hints.claims = {{args.tp, args.pp, args.vpp, args.ep, args.kv_multiplier, QkvOf(args),
                   HardwareOf(args), NamesOf(args)},
                  "the command line"};
  hints.tag = args.tag;
  hints.config = args.config;
  hints.fused_qkv = args.fused_qkv;
  hints.lora = args.merge_lora.value_or("");
  hints.hf_weights = args.weights.value_or("");
  hints.hf_weights_option = args.weights_option;
  return hints;
}

namespace {

template <typename T>
void TakeUnlessSaid(std::optional<T>& option, const std::optional<T>& value) {
  if (!option) option = value;
}

// What the options say, and below them the file of --layout-from. Of an output that has no such
// layout it describes the input.
LayoutArgs WithLayoutOf(const nxd::NxdtConfig& config, Kind to, LayoutArgs args) {
  const nxd::LayoutOptions& layout = config.layout;
  if (to != Kind::kRollout) TakeUnlessSaid(args.tp, layout.tp);  // there it is the engine's
  TakeUnlessSaid(args.pp, layout.pp);
  TakeUnlessSaid(args.vpp, layout.vpp);
  TakeUnlessSaid(args.ep, layout.ep);
  TakeUnlessSaid(args.kv_multiplier, layout.kv_multiplier);
  TakeUnlessSaid(args.qkv, std::optional(std::string(nxd::QkvStyleName(*layout.qkv))));
  TakeUnlessSaid(args.hw, std::optional<std::string>(
                              *layout.hardware == models::Hardware::kTrn2 ? "trn2" : "trn1"));
  if (layout.names)
    TakeUnlessSaid(args.style, std::optional(std::string(nxd::NameStyleName(*layout.names))));
  if (to == Kind::kNxd) TakeUnlessSaid(args.xser, config.xser);
  return args;
}

// Its config.json, as it is named there or beside the file itself.
Result<std::optional<std::string>> ModelConfigOf(const nxd::NxdtConfig& config,
                                                 const std::string& path) {
  if (config.model_config.empty()) return std::optional<std::string>();
  for (const std::string& place :
       {config.model_config, JoinPath(ParentPath(path), config.model_config)}) {
    NXDKIT_ASSIGN(const bool there, IsFile(place));
    if (there) return std::optional(place);
  }
  return std::optional<std::string>();
}

// What the file has said, for who reads whether it was the right one.
std::string TakenText(const nxd::NxdtConfig& config, const std::string& path,
                      const std::optional<std::string>& model_config) {
  const nxd::LayoutOptions& layout = config.layout;
  std::string text =
      fmt::format("layout from {}: tp {}, pp {}, vpp {}, ep {}, kv multiplier {}, q/k/v {}, {}",
                  path, *layout.tp, *layout.pp, *layout.vpp, *layout.ep, *layout.kv_multiplier,
                  nxd::QkvStyleName(*layout.qkv), models::HardwareName(*layout.hardware));
  if (layout.names) text += fmt::format(", style {}", nxd::NameStyleName(*layout.names));
  if (config.xser) text += *config.xser ? ", xser" : ", no xser";
  if (model_config) text += ", config " + *model_config;
  return text;
}

void TakeTraining(const nxd::NxdtConfig& config, hardware::TrainingUse& use) {
  if (config.sequence > 0) use.sequence = config.sequence;
  use.micro_batch = config.micro_batch;
  use.cp = config.context_parallel;
  use.zero1 = config.zero1;
  use.states = config.bf16_states ? hardware::States::kBf16 : hardware::States::kMixed;
  use.recompute = config.recompute;
}

}  // namespace

Result<Sides> SidesOf(const LayoutArgs& given, Kind from, Kind to) {
  NXDKIT_TRY(CheckMeaning(given, from, to));
  LayoutArgs args = given;
  Sides sides;
  std::optional<std::string> model_config;
  if (given.layout_from) {
    NXDKIT_ASSIGN(const nxd::NxdtConfig config, nxd::ReadNxdtConfig(*given.layout_from));
    args = WithLayoutOf(config, to, given);
    NXDKIT_ASSIGN(model_config, ModelConfigOf(config, *given.layout_from));
    TakeTraining(config, sides.training);
    sides.notes.push_back(TakenText(config, *given.layout_from, model_config));
  }
  sides.training.nodes = args.nodes.value_or(1);
  if (args.seq) sides.training.sequence = *args.seq;
  sides.input = HintsOf(args);
  sides.input.config_if_none = model_config;
  nxd::LayoutOptions& layout = sides.input.claims;
  ops::OutputOptions& out = sides.output;
  static_cast<nxd::LayoutOptions&>(out) = layout;
  if (to == Kind::kNxd) {
    layout = {};
    sides.input.hardware_if_unknown = HardwareOf(args);
  }
  if (to == Kind::kRollout) {
    sides.input.claims.tp.reset();
    sides.input.fused_qkv.reset();
  }
  if (args.instance && to == Kind::kNxd) {
    NXDKIT_ASSIGN(out.hardware_if_unsaid, HardwareOfInstance(args));
  }
  if (args.style) out.optimum = *args.style == "optimum";
  out.xser = args.xser;
  if (args.flavor)
    out.flavor = *args.flavor == "nxdi" ? rollout::Flavor::kNxdi : rollout::Flavor::kOptimum;
  if (args.bs) out.batch_size = *args.bs;
  if (args.seq) out.sequence_length = *args.seq;
  out.fused_qkv = args.fused_qkv;
  out.on_device_sampling = args.on_device_sampling;
  out.optimum_version = args.optimum_version;
  out.compiler_version = args.compiler_version;
  if (to == Kind::kRollout && !args.bundle) out.installations = InstalledHere();
  out.bundle = args.bundle;
  if (to == Kind::kDcp) {
    sides.input.claims.names.reset();  // they are the output's
    if (args.style) out.dcp_style = dcp::StyleFromName(*args.style);
    NXDKIT_ASSIGN(out.mesh, MeshOf(args));
  }
  NXDKIT_ASSIGN(out.dtype, DtypeOf(args));
  out.downcast = args.dtype == kDowncast;
  if (args.max_shard_size) {
    NXDKIT_ASSIGN(out.max_shard_bytes, hf::ParseShardSize(*args.max_shard_size));
  }
  return sides;
}

Runner::Runner(const ToolContext& context) : sink_(context.progress_sink()) {
  options_.jobs = context.common().jobs;
  options_.max_memory = context.common().max_memory;
  options_.poll = StopIfInterrupted;
  options_.begin = [this](const std::string& phase, uint64_t bytes) {
    progress_.reset();
    progress_ = std::make_unique<Progress>(phase, bytes, sink_);
  };
  options_.on_bytes = [this](uint64_t bytes) {
    if (progress_) progress_->Add(bytes);
  };
}

}  // namespace nxdkit::tool
