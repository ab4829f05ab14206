#include "formats/kinds/rollout/decide_rollout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "formats/kinds/decide.h"
#include "formats/kinds/open_file.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/kinds/table.h"
#include "formats/rollout/cpu_plan.h"
#include "formats/rollout/installed.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/paths.h"

namespace nxdkit::kinds {
namespace {

// The options of the output, as the user gave them.
struct Asked {
  std::optional<int> tp;
  std::optional<rollout::Flavor> flavor;
  std::optional<int64_t> batch_size, sequence_length;
  std::optional<bool> fused_qkv, on_device_sampling;
  // The versions to write into neuron_config.json; and other places to look for them.
  std::optional<std::string> optimum_version, compiler_version;
  std::vector<rollout::Installation> installations;
  std::optional<std::string> bundle;  // a compiled one, source of model.pt and neuron_config.json
  bool cpu_plan = false;              // nxdkit-cpu-plan.json instead of a compiled blob
  bool only_weights = false;          // refreshes `bundle`, which may have no model.pt
  std::optional<Dtype> dtype;
};

Asked AskedOf(const OutputOptions& options) {
  Asked asked;
  asked.tp = options.Number("tp");
  if (const std::optional<std::string> flavor = options.Text("flavor"))
    asked.flavor = *flavor == "nxdi" ? rollout::Flavor::kNxdi : rollout::Flavor::kOptimum;
  asked.batch_size = options.Number("bs");
  asked.sequence_length = options.Number("seq");
  asked.fused_qkv = options.Toggle("fused-qkv");
  asked.on_device_sampling = options.Toggle("on-device-sampling");
  asked.optimum_version = options.Text("optimum-version");
  asked.compiler_version = options.Text("compiler-version");
  using Installations = std::vector<rollout::Installation>;
  asked.installations = options.Get<Installations>("installations").value_or(Installations());
  asked.bundle = options.Text("bundle");
  asked.cpu_plan = options.Toggle("cpu-plan").value_or(false);
  asked.only_weights = options.Toggle("only-weights").value_or(false);
  asked.dtype = options.dtype;
  return asked;
}

template <typename T>
Status Agree(const char* option, const std::optional<T>& asked, const T& bundle) {
  if (!asked || *asked == bundle) return OkStatus();
  return BadUsage("{} {} was asked for, but the bundle is made for {}", option, *asked, bundle);
}

Status AgreeOnText(const char* option, const std::optional<std::string>& asked,
                   const std::string& bundle) {
  if (!asked || *asked == bundle) return OkStatus();
  return BadUsage("{} {} was asked for, but the bundle says \"{}\"", option, *asked, bundle);
}

Status CheckAgrees(const Asked& asked, const rollout::NeuronConfig& config,
                   std::optional<Dtype> dtype) {
  NXDKIT_TRY(Agree("--tp", asked.tp, config.tp));
  NXDKIT_TRY(Agree("--bs", asked.batch_size, config.batch_size));
  NXDKIT_TRY(Agree("--seq", asked.sequence_length, config.sequence_length));
  if (asked.fused_qkv && *asked.fused_qkv != config.fused_qkv)
    return BadUsage("--{}fused-qkv was asked for, but the bundle was compiled with q, k and v {}",
                    *asked.fused_qkv ? "" : "no-", config.fused_qkv ? "fused" : "apart");
  if (asked.on_device_sampling && *asked.on_device_sampling != config.on_device_sampling)
    return BadUsage(
        "--{}on-device-sampling was asked for, but the bundle was compiled to sample {}",
        *asked.on_device_sampling ? "" : "no-",
        config.on_device_sampling ? "on the device" : "on the host");
  NXDKIT_TRY(AgreeOnText("--optimum-version", asked.optimum_version, config.stamp.optimum));
  NXDKIT_TRY(AgreeOnText("--compiler-version", asked.compiler_version, config.stamp.compiler));
  if (asked.flavor && *asked.flavor != config.flavor)
    return BadUsage("--flavor {} was asked for, but the bundle is of flavor {}",
                    FlavorName(*asked.flavor), FlavorName(config.flavor));
  if (asked.dtype && dtype && *asked.dtype != *dtype)
    return BadUsage("--dtype {} was asked for, but the bundle is made for {}",
                    TorchName(*asked.dtype), config.torch_dtype);
  return OkStatus();
}

// Only a bundle with all its shards can have them replaced.
Status CheckRefreshable(const rollout::Bundle& bundle) {
  if (bundle.shards.empty())
    return Unsupported("the bundle has no rank shards that could be replaced")
        .in(bundle.folder)
        .hint("make a bundle that has some with --bundle");
  if (bundle.weights_link == bundle.folder)
    return Unsupported(
               "the rank shards are in the bundle itself, expected a folder weights, which can be "
               "switched")
        .in(bundle.folder);
  if (static_cast<int64_t>(bundle.shards.size()) != bundle.config->tp)
    return Unsupported("the bundle holds {} of {} ranks; a part cannot be refreshed",
                       bundle.shards.size(), bundle.config->tp)
        .in(bundle.weights_folder);
  return OkStatus();
}

Status TakeBundle(const std::string& path, const Asked& asked, RolloutOutput& output) {
  NXDKIT_ASSIGN(rollout::Bundle bundle, rollout::OpenBundle(path, OpenTensorFile));
  const std::string file = JoinPath(path, "neuron_config.json");
  if (!bundle.config) return NotFound("the bundle has no neuron_config.json").in(path);
  if (bundle.blobs.empty() && !asked.only_weights)
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
  if (asked.only_weights) NXDKIT_TRY(CheckRefreshable(bundle));
  const std::optional<Dtype> dtype = DtypeFromTorchName(config.torch_dtype);
  if (Status agrees = CheckAgrees(asked, config, dtype); !agrees.ok())
    return std::move(agrees).error().in(file).hint(
        "leave the option out, or compile a bundle for it");
  if (!dtype) return Unsupported("torch_dtype \"{}\" is unknown", config.torch_dtype).in(file);
  output.dtype = dtype;
  output.neuron = config;
  output.neuron_text = bundle.config_text;
  output.bundle = std::move(bundle);
  return OkStatus();
}

bool IsRounded(Dtype from, Dtype to) {
  const bool is_exact =
      from == to || to == Dtype::kF64 || (to == Dtype::kF32 && Info(from).bits < 32);
  return Info(from).floating && !is_exact;
}

// The dtype of a bundle was chosen when it was compiled, not for these weights.
void NoteRounding(const BoundArtifact& source, RolloutOutput& output) {
  std::map<Dtype, size_t> rounded;
  const BoundArtifact& own = source.merged ? *source.base : source;
  for (const StoredTensor& stored : own.bound.stored)
    if (IsRounded(stored.dtype, *output.dtype)) ++rounded[stored.dtype];
  for (const auto& [dtype, count] : rounded)
    output.notes.push_back(
        fmt::format("weights are {} and the bundle's dtype is {}: {} tensor{} rounded", Name(dtype),
                    Name(*output.dtype), count, count == 1 ? " is" : "s are"));
}

bool SamplesOnDevice(const models::Family& family, const rollout::NeuronConfig& neuron) {
  if (neuron.flavor == rollout::Flavor::kNxdi) return false;  // the default
  if (family.optimum_sampling == models::OptimumSampling::kNotAtTwoRanks)
    return neuron.tp != 2 || neuron.batch_size == 1;
  return family.optimum_sampling == models::OptimumSampling::kOnDevice;
}

// A Python package version: "0.4.6.dev4", "2.21.33363.0+82129205".
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

// The versions that the loader will compare with its own: as the options say; else those of the
// first environment that has both packages, or one; else those of the bundle that is converted. The
// built-in ones are of a single release, which few machines have.
Status DecideStamp(const Asked& asked, RolloutOutput& output) {
  rollout::VersionStamp& stamp = output.neuron.stamp;
  if (output.neuron.flavor == rollout::Flavor::kNxdi || asked.cpu_plan) {
    if (asked.optimum_version || asked.compiler_version)
      return BadUsage("--optimum-version and --compiler-version: {} carries no versions",
                      asked.cpu_plan ? "a bundle for our own engine" : "a bundle of NxDI");
    stamp = {};  // NxDI compares none; the engine of nxdkit has no vendor
    return OkStatus();
  }
  rollout::Installation found;
  for (const rollout::Installation& at : asked.installations)
    if (found.folder.empty() || (!at.optimum.empty() && !at.compiler.empty() &&
                                 (found.optimum.empty() || found.compiler.empty())))
      found = at;
  NXDKIT_TRY(CheckVersion("--optimum-version", asked.optimum_version));
  NXDKIT_TRY(CheckVersion("--compiler-version", asked.compiler_version));
  std::vector<std::string> unknown;
  const auto decide = [&](const std::optional<std::string>& said, const std::string& installed,
                          const char* key, const char* ours, std::string& out) {
    if (said) out = *said;
    if (!said && !installed.empty()) out = installed;
    if (!out.empty()) return;
    out = ours;
    unknown.push_back(fmt::format("{} {}", key, ours));
  };
  decide(asked.optimum_version, found.optimum, "optimum_neuron_version", rollout::kOptimumVersion,
         stamp.optimum);
  decide(asked.compiler_version, found.compiler, "neuronxcc_version", rollout::kCompilerVersion,
         stamp.compiler);
  if (!unknown.empty())
    output.warnings.push_back(fmt::format(
        "neuron_config.json says {}: optimum-neuron loads the bundle only if it and neuronx-cc "
        "have exactly these versions, and {} (--optimum-version, --compiler-version)",
        fmt::join(unknown, " and "),
        found.editable
            ? fmt::format("the one in {} is editable, with an unknown version", found.folder)
            : "none of them is installed here"));
  if (asked.compiler_version && asked.compiler_version->find('+') == std::string::npos)
    output.warnings.push_back(
        fmt::format("--compiler-version {} has no +hash, as neuronx-cc's own versions have: the "
                    "loader compares all of it",
                    *asked.compiler_version));
  if (found.editable && !asked.optimum_version && unknown.empty())
    output.warnings.push_back(
        fmt::format("optimum-neuron in {} is editable, with an unknown version: neuron_config.json "
                    "says {}, which the loader compares (--optimum-version)",
                    found.folder, stamp.optimum));
  const bool both = !found.optimum.empty() && !found.compiler.empty();
  if (both && !asked.optimum_version && !asked.compiler_version)
    output.notes.push_back(fmt::format("versions for the loader, as installed in {}: {}, {}",
                                       found.folder, stamp.optimum, stamp.compiler));
  return OkStatus();
}

// The bundle as it is laid out anew.
Status DecideBundle(const BoundArtifact& source, const OutputOptions& options, const Asked& asked,
                    RolloutOutput& output) {
  const rollout::Bundle* const from = BundleOf(source.artifact);
  const bool has_config = from && from->config;
  rollout::NeuronConfig& neuron = output.neuron;
  if (has_config) neuron = *from->config;
  NXDKIT_ASSIGN(const int tp, DecideTp(source, kRollout, options));
  neuron.local_ranks = neuron.tp = tp;
  neuron.flavor = asked.flavor.value_or(neuron.flavor);
  if (neuron.flavor == rollout::Flavor::kOptimum)  // has neither
    neuron.vocab_parallel = neuron.transposed_qkv = neuron.transposed_output =
        neuron.transposed_mlp = false;
  neuron.batch_size = asked.batch_size.value_or(neuron.batch_size);
  neuron.sequence_length = asked.sequence_length.value_or(from ? neuron.sequence_length : 4096);
  const bool by_default = from ? neuron.fused_qkv
                               : neuron.flavor == rollout::Flavor::kOptimum &&
                                     source.model->config.family->optimum_fuses_qkv;
  neuron.fused_qkv = asked.fused_qkv.value_or(by_default);
  neuron.transposed_qkv &= neuron.fused_qkv;
  neuron.on_device_sampling = asked.on_device_sampling.value_or(
      has_config ? neuron.on_device_sampling
                 : SamplesOnDevice(*source.model->config.family, neuron));
  NXDKIT_TRY(DecideStamp(asked, output));
  NXDKIT_ASSIGN(const Dtype dtype,
                asked.dtype ? Result<Dtype>(*asked.dtype) : CommonDtype(source, false));
  output.dtype = dtype;
  neuron.torch_dtype = TorchName(dtype);
  NXDKIT_ASSIGN(output.neuron_text, WriteNeuronConfig(neuron, source.artifact.config_text));
  if (asked.cpu_plan) {
    // It is bound to config.json as it will be written.
    NXDKIT_TRY(DecideConfig(source, output));
    const std::string& text =
        output.config_text.empty() ? source.artifact.config_text : output.config_text;
    NXDKIT_ASSIGN(const rollout::CpuPlan plan,
                  rollout::MakeCpuPlan(source.model->config, text, neuron, output.neuron_text));
    output.cpu_plan_text = rollout::WriteCpuPlan(plan);
  } else {
    output.notes.emplace_back(kBlobMissing);
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<Output>> DecideRollout(const BoundArtifact& source,
                                              const OutputOptions& options) {
  NXDKIT_TRY(RequireModel(source));
  NXDKIT_TRY(rollout::CheckFamily(source.model->config));
  std::unique_ptr<Output> decided = std::make_unique<RolloutOutput>(options);
  auto& output = static_cast<RolloutOutput&>(*decided);
  Asked asked = AskedOf(options);
  output.only_weights = asked.only_weights;
  if (options.downcast) NXDKIT_TRY(CommonDtype(source, true).To(asked.dtype));
  if (asked.bundle) {
    NXDKIT_TRY(TakeBundle(*asked.bundle, asked, output));
    if (!asked.dtype) NoteRounding(source, output);
  } else {
    NXDKIT_TRY(DecideBundle(source, options, asked, output));
  }
  const models::ModelConfig& config = source.model->config;
  const models::RolloutHeads heads =
      models::RolloutPlacement(config.heads, config.kv_heads, output.neuron.tp);
  if (heads.strategy == models::GqaStrategy::kConvertToMha && heads.padded_kv != config.kv_heads &&
      config.heads != config.kv_heads)
    output.notes.push_back(fmt::format(
        "{} key heads are stored as {} (convert-to-mha): the shards are right, but {} cannot make "
        "them itself from a Hugging Face checkpoint",
        config.kv_heads, heads.padded_kv,
        output.neuron.flavor == rollout::Flavor::kNxdi ? "NxDI" : "an older optimum-neuron"));
  if (output.neuron.fused_qkv && config.qkv_bias &&
      output.neuron.flavor == rollout::Flavor::kOptimum)
    return Unsupported(
               "optimum-neuron does not fuse q/k/v biases: a fused bundle of this model cannot be "
               "loaded")
        .hint("use --no-fused-qkv, or --flavor nxdi");
  return decided;
}

}  // namespace nxdkit::kinds
