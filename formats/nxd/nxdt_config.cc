#include "formats/nxd/nxdt_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>

#include "formats/nxd/nxdt_strangers.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/yaml/interpolate.h"
#include "lib/yaml/yaml.h"

namespace nxdkit::nxd {
namespace {

constexpr uint64_t kMaxYamlBytes = 1 << 20;
constexpr int64_t kMaxSize = 4096;
constexpr int64_t kMostTokens = int64_t{1} << 24;

// One map of the document, "distributed_strategy"; the first error is kept.
class Section {
 public:
  Section(const Value& root, std::string_view name, const std::string& path)
      : map_(root.Find(name)), name_(name), path_(path) {}

  std::optional<int> Size(std::string_view key) { return Int(key, 1, kMaxSize); }

  std::optional<int> Int(std::string_view key, int64_t least, int64_t most) {
    const Value* value = Find(key);
    if (!value) return std::nullopt;
    if (value->kind == ValueKind::kInt && value->integer >= least && value->integer <= most)
      return static_cast<int>(value->integer);
    Fail(key, *value, fmt::format("a whole number from {} to {}", least, most));
    return std::nullopt;
  }

  // For keys that no layout depends on: an OmegaConf expression is ignored.
  std::optional<int> IntIfLiteral(std::string_view key, int64_t least, int64_t most) {
    const Value* value = Find(key);
    if (value && value->text.find("${") != std::string::npos) return std::nullopt;
    return Int(key, least, most);
  }

  // nullopt for anything but a number: "auto".
  std::optional<int> IntIfNumber(std::string_view key) {
    const Value* value = Find(key);
    return value && value->kind == ValueKind::kInt ? Int(key, -1, 1'000'000) : std::nullopt;
  }

  std::optional<bool> Flag(std::string_view key) {
    const Value* value = Find(key);
    if (!value) return std::nullopt;
    if (value->kind == ValueKind::kBool) return value->boolean;
    Fail(key, *value, "True or False");
    return std::nullopt;
  }

  std::string Text(std::string_view key) {
    const Value* value = Find(key);
    if (!value) return "";
    if (value->kind == ValueKind::kString) return value->text;
    Fail(key, *value, "a text");
    return "";
  }

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  bool HasAny(std::initializer_list<std::string_view> keys) const {
    return std::ranges::any_of(keys, [&](std::string_view key) { return Has(key); });
  }

  const Status& status() const { return status_; }

 private:
  const Value* Find(std::string_view key) const {
    const Value* value = map_ ? map_->Find(key) : nullptr;
    return value && value->kind != ValueKind::kNull ? value : nullptr;
  }

  void Fail(std::string_view key, const Value& value, const std::string& expected) {
    if (!status_.ok()) return;
    const bool expression = value.text.find("${") != std::string::npos;
    status_ =
        BadUsage("{}: found {}, expected {}", PlaceText(value.place),
                 EscapeControl(ValueText(value)), expected)
            .in(path_)
            .member(fmt::format("{}.{}", name_, key))
            .hint(expression ? "an expression of OmegaConf: name a copy of the file with its value"
                             : "");
  }

  const Value* map_;
  const std::string name_;
  const std::string& path_;
  Status status_;
};

// The choice of NxD Training 1.6's modules (models/hf_models). Mixtral's ignores fuse_qkv and
// fuses: by the default of NxD's layer, or in a matrix of its own.
QkvStyle QkvOf(bool linear, bool fused, bool experts) {
  const bool fuses = fused || experts;
  if (linear) return fuses ? QkvStyle::kFused : QkvStyle::kLinear;
  return fuses ? QkvStyle::kCoalesced : QkvStyle::kSeparate;
}

// Only trn2 has two logical cores in one (lnc), and 64 or 128 devices; trn1 has 2 or 32. `lnc: 1`
// may occur for either.
std::optional<models::Hardware> HardwareOf(Section& trainer) {
  const std::optional<int> lnc = trainer.IntIfLiteral("lnc", 1, 2);
  const std::optional<int> devices = trainer.IntIfNumber("devices");
  if (lnc == 2 || devices == 64 || devices == 128) return models::Hardware::kTrn2;
  if (devices == 2 || devices == 32) return models::Hardware::kTrn1;
  return std::nullopt;
}

Error NotNxdt(const Value& root, const std::string& path) {
  const YamlStranger stranger = StrangerOf(root);
  Error error = stranger.what.empty()
                    ? BadUsage(
                          "no map distributed_strategy: this is not a configuration of NxD "
                          "Training")
                    : BadUsage("this is {}, not of NxD Training", stranger.what);
  return std::move(error).in(path).hint(stranger.hint);
}

// Only the layer of qkv_linear repeats key heads.
void DropMultiplier(NxdtConfig& config) {
  if (config.layout.kv_multiplier == 1) return;
  config.notes.push_back(fmt::format(
      "kv_replicator {} is left out: without qkv_linear (and with Megatron's models) NxD "
      "Training repeats no key heads",
      *config.layout.kv_multiplier));
  config.layout.kv_multiplier = 1;
}

}  // namespace

Result<NxdtConfig> ParseNxdtConfig(std::string_view text, const std::string& path) {
  NXDKIT_ASSIGN(const Value written, ParseYaml(text, {.interpolations = true}).in(path));
  const Value root = Interpolate(written);
  if (root.kind != ValueKind::kMap || !root.Find("distributed_strategy"))
    return NotNxdt(root, path);
  NxdtConfig config;
  Section strategy(root, "distributed_strategy", path);
  if (!strategy.HasAny({"tensor_model_parallel_size", "pipeline_model_parallel_size",
                        "virtual_pipeline_model_parallel_size", "expert_model_parallel_size",
                        "kv_replicator", "zero1"}))
    return BadUsage(
               "it does not describe a layout: expected keys such as tensor_model_parallel_size")
        .in(path)
        .member("distributed_strategy");
  config.layout.tp = strategy.Size("tensor_model_parallel_size").value_or(1);
  config.layout.pp = strategy.Size("pipeline_model_parallel_size").value_or(1);
  config.layout.vpp = strategy.Size("virtual_pipeline_model_parallel_size").value_or(1);
  config.layout.ep = strategy.Size("expert_model_parallel_size").value_or(1);
  config.layout.kv_multiplier = strategy.Size("kv_replicator").value_or(1);
  config.context_parallel = strategy.Size("context_parallel_size").value_or(1);
  config.zero1 = strategy.Flag("zero1").value_or(false);
  NXDKIT_TRY(strategy.status());

  Section model(root, "model", path);
  const bool linear = model.Flag("qkv_linear").value_or(false);
  config.qkv = QkvOf(linear, model.Flag("fuse_qkv").value_or(true), model.Has("moe"));
  if (model.Has("moe")) config.layout.names = NameStyle::kNxdt;
  config.model_config = model.Text("model_config");
  if (config.model_config.find("${") != std::string::npos) config.model_config.clear();
  config.recompute = model.Text("activations_checkpoint_granularity") == "full";
  const std::optional<int> encoded = model.IntIfLiteral("encoder_seq_length", 1, kMostTokens);
  NXDKIT_TRY(model.status());

  Section trainer(root, "trainer", path);
  config.layout.hardware = HardwareOf(trainer);
  NXDKIT_TRY(trainer.status());

  Section manager(root, "exp_manager", path);
  config.xser = manager.Flag("save_xser");
  NXDKIT_TRY(manager.status());

  Section data(root, "data", path);
  config.micro_batch = data.IntIfLiteral("micro_batch_size", 1, kMaxSize).value_or(1);
  const std::optional<int> length = data.IntIfLiteral("seq_length", 1, kMostTokens);
  config.sequence = length.value_or(encoded.value_or(0));
  NXDKIT_TRY(data.status());

  Section precision(root, "precision", path);
  config.bf16_states = precision.Text("type") == "bf16SR";
  NXDKIT_TRY(precision.status());

  const Value* source = root.Find("model_source");
  if (source && source->text == "megatron") {
    config.layout.names = NameStyle::kMegatron;
    config.qkv.reset();
  }
  if (source && source->text != "megatron" && source->text != "hf")
    return Unsupported("{}: found {}, expected hf or megatron", PlaceText(source->place),
                       EscapeControl(ValueText(*source)))
        .in(path)
        .member("model_source");
  if (!linear || !config.qkv) DropMultiplier(config);
  return config;
}

Result<NxdtConfig> ReadNxdtConfig(const std::string& path) {
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, kMaxYamlBytes));
  return ParseNxdtConfig(text, path);
}

}  // namespace nxdkit::nxd
