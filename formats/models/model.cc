#include "formats/models/model.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/models/expand.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json_reader.h"

namespace nxdkit::models {
namespace {

constexpr int64_t kMaxExpertsInAll = 1 << 18;  // of all layers; each has three parameters

std::string Architecture(const JsonReader& reader) {
  const Json* names = reader.Find("architectures");
  const bool named = names && names->is_array() && !names->empty() && names->front().is_string();
  return named ? names->front().get<std::string>() : "";
}

std::optional<Dtype> ConfigDtype(JsonReader& reader) {
  std::string text = reader.Text("dtype");
  if (text.empty()) text = reader.Text("torch_dtype");
  // NxDI moves the dtype into its nested object.
  const Json* nested = reader.Find("neuron_config");
  const Json* moved = nested ? JsonFind(*nested, "torch_dtype") : nullptr;
  if (text.empty() && moved && moved->is_string()) text = moved->get<std::string>();
  return text.empty() ? std::nullopt : DtypeFromTorchName(text);
}

// transformers' key, and that of older compressed-tensors.
constexpr const char* kQuantKeys[] = {"quantization_config", "compression_config"};

std::string QuantMethod(const Json& json) {
  for (const char* key : kQuantKeys) {
    const Json* of = JsonFind(json, key);
    if (!of || !of->is_object()) continue;
    const Json* method = JsonFind(*of, "quant_method");
    return method && method->is_string() ? method->get<std::string>() : "unnamed";
  }
  return "";
}

// Rows of one head, along the dimension that is cut; 0 if there are none, or heads of several
// kinds: their numbers begin again with each kind.
int64_t HeadRows(const Model& model, const Param& param) {
  if (param.CutDim() == kWhole) return 0;
  const ParamCut& cut = model.cuts[param.cut];
  if (cut.segments.size() != 1) return 0;
  const Segment& first = cut.segments.front();
  const bool heads = IsHead(first.of) || (first.count == model.config.heads && first.unit > 1);
  return heads ? first.unit : 0;
}

// The family's lets evaluated with this config, as numbers; 0 where there is no such let.
class Facts {
 public:
  Facts(const Family& family, TableRun& run) : table_(*family.table), run_(run) {}

  int64_t Number(Fact fact, int64_t fallback = 0) {
    const int64_t symbol = table_.facts[static_cast<size_t>(fact)];
    if (symbol < 0) return fallback;
    const Value& value = run_.At(static_cast<uint32_t>(symbol));
    if (value.is_number()) return Bounded(fact, value.number);
    // A row that needs the missing value will report it.
    if (value.kind == Value::Kind::kFault && status_.ok()) status_ = run_.WhyLet(symbol);
    return fallback;
  }
  Status status() const { return status_; }

 private:
  // A key is checked where it is read; a text may give any number.
  int64_t Bounded(Fact fact, int64_t number) {
    const Expected& bounds = BoundsOf(fact);
    if (bounds.type != Expected::Type::kInteger || (number >= 0 && number <= bounds.most))
      return number;
    if (status_.ok())
      status_ =
          Corrupt("the family's text gives {} for {}, at most {} is possible", number,
                  table_.symbols[static_cast<size_t>(table_.facts[static_cast<size_t>(fact)])].name,
                  bounds.most);
    return 0;
  }

  const Table& table_;
  TableRun& run_;
  Status status_;
};

// The key of config.json that a fact comes from, for messages.
std::string KeyOf(const Family& family, Fact fact) {
  const int64_t symbol = family.table->facts[static_cast<size_t>(fact)];
  return symbol < 0 ? "" : family.table->symbols[static_cast<size_t>(symbol)].origin;
}

Status ReadFacts(ModelConfig& config, TableRun& run) {
  const Family& family = *config.family;
  Facts facts(family, run);
  config.hidden = facts.Number(Fact::kHidden);
  config.intermediate = facts.Number(Fact::kIntermediate);
  config.layers = facts.Number(Fact::kLayers);
  config.vocab = facts.Number(Fact::kVocab);
  config.heads = facts.Number(Fact::kHeads);
  config.kv_heads = facts.Number(Fact::kKeyHeads, config.heads);
  config.head_dim = facts.Number(Fact::kHeadDim);
  config.experts = facts.Number(Fact::kExperts);
  config.expert_intermediate =
      config.experts > 0 ? facts.Number(Fact::kExpertIntermediate, config.intermediate) : 0;
  config.tied = facts.Number(Fact::kTied) != 0;
  config.labels = facts.Number(Fact::kLabels);
  NXDKIT_TRY(facts.status());
  NXDKIT_TRY(run.CheckFlags());
  if (config.kv_heads > 0 && config.heads % config.kv_heads != 0)
    return Corrupt("{} is not a divisor of {} {}", config.kv_heads, KeyOf(family, Fact::kHeads),
                   config.heads)
        .member(KeyOf(family, Fact::kKeyHeads));
  if (config.heads > 0 && config.head_dim > kMaxExtent / config.heads)
    return Corrupt("{} heads of {} rows are over the limit of {} rows", config.heads,
                   config.head_dim, kMaxExtent)
        .member(KeyOf(family, Fact::kHeadDim));
  if (config.experts * config.layers > kMaxExpertsInAll)
    return Corrupt("{} experts in each of {} layers are over the limit of {} in all",
                   config.experts, config.layers, kMaxExpertsInAll)
        .member(KeyOf(family, Fact::kExperts));
  NXDKIT_TRY(run.CheckPlainRows());
  if (family.splits_qkv && (config.heads < 1 || config.kv_heads < 1 || config.head_dim < 1))
    return Corrupt(
        "the family's text has rows \"as query\", and no let nh, nkv or D for their heads");
  if (config.experts > 0) NXDKIT_TRY(run.SparseLayers(config.layers).To(config.sparse));
  NXDKIT_TRY(run.Aliases().To(config.aliases));
  config.qkv_bias = run.HasBias(Role::kQuery);
  config.output_bias = run.HasBias(Role::kOutput);
  config.mlp_bias = run.HasBias(Role::kDown);
  return OkStatus();
}

// The settings of a config that do not depend on the family.
Result<ModelConfig> ReadCommon(const Json& json, const std::string& path) {
  JsonReader reader(json, path);
  ModelConfig config;
  config.model_type = reader.Text("model_type");
  config.architecture = Architecture(reader);
  NXDKIT_TRY(reader.status());
  if (config.model_type.empty() && config.architecture.empty())
    return Corrupt("neither model_type nor architectures is there to identify the model").in(path);
  config.dtype = ConfigDtype(reader);
  config.quant_method = QuantMethod(json);
  NXDKIT_TRY(reader.status());
  return config;
}

// NxDI's merged file has bare Infinity; Python's json takes the last of duplicate keys.
Result<Json> ReadObject(std::string_view json_text, const std::string& path) {
  NXDKIT_ASSIGN(Json json, ParseJson(json_text, kLikePython).in(path));
  if (json.is_object()) return json;
  return Corrupt("found {}, expected an object", JsonTypeText(json)).in(path);
}

Status Complete(ModelConfig& config, Json json) {
  // Texts use the architecture where a head depends on it.
  json["architecture"] = config.architecture;
  config.text = std::make_shared<const ConfigText>(std::move(json));
  TableRun run(*config.family->table, config.text->json);
  return ReadFacts(config, run);
}

}  // namespace

Result<ModelConfig> ParseConfig(std::string_view json_text, const std::string& path,
                                const std::string& family_file) {
  NXDKIT_ASSIGN(Json json, ReadObject(json_text, path));
  NXDKIT_ASSIGN(ModelConfig config, ReadCommon(json, path));
  NXDKIT_TRY(FindFamily(config.model_type, config.architecture, family_file).To(config.family));
  if (config.family) NXDKIT_TRY(Complete(config, std::move(json)).in(path));
  return config;
}

Result<ModelConfig> ParseConfigAs(std::shared_ptr<const Family> family, std::string_view json_text,
                                  const std::string& path) {
  NXDKIT_ASSIGN(Json json, ReadObject(json_text, path));
  NXDKIT_ASSIGN(ModelConfig config, ReadCommon(json, path));
  config.family = std::move(family);
  NXDKIT_TRY(Complete(config, std::move(json)).in(path));
  return config;
}

Result<std::string> WithDtype(std::string_view json_text, Dtype dtype) {
  NXDKIT_ASSIGN(Json json, ParseJson(json_text, kLikePython));
  for (const char* key : {"dtype", "torch_dtype"})
    if (const auto it = json.find(key); it != json.end()) *it = TorchName(dtype);
  return DumpPython(json, /*sort_keys=*/false) + "\n";
}

Result<std::string> WithoutQuantization(std::string_view json_text) {
  NXDKIT_ASSIGN(Json json, ParseJson(json_text, kLikePython));
  for (const char* key : kQuantKeys) json.erase(key);
  return DumpPython(json, /*sort_keys=*/false) + "\n";
}

bool ModelConfig::IsSparse(int64_t layer) const {
  return layer >= 0 && static_cast<size_t>(layer) < sparse.size() &&
         sparse[static_cast<size_t>(layer)];
}

Result<Model> MakeModel(const ModelConfig& config) {
  if (!config.family)
    return Error(Errc::kUnsupported, NoTableText(config))
        .hint(
            "as hf or torch it can still be inspected, digested, compared and copied; shards of it "
            "can be inspected and packed");
  TableRun run(*config.family->table, config.text->json);
  Model model{config, {}, {}, {}};
  NXDKIT_TRY(run.Expand(model));
  return model;
}

std::optional<uint32_t> Model::Find(std::string_view name) const {
  for (uint32_t i = 0; i < params.size(); ++i)
    if (params[i].name == name) return i;
  return std::nullopt;
}

std::vector<LogicalTensor> Model::Logical() const {
  std::vector<LogicalTensor> out;
  out.reserve(params.size());
  for (const Param& param : params)
    out.push_back({param.name, param.shape, HeadRows(*this, param), std::max(param.CutDim(), 0)});
  return out;
}

int64_t LayerOf(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  constexpr size_t kDigits = 9;
  size_t at = name.find(kLayers);
  while (at != std::string_view::npos && at > 0 && name[at - 1] != '.')
    at = name.find(kLayers, at + 1);
  if (at == std::string_view::npos) return -1;
  const std::string_view rest = name.substr(at + kLayers.size());
  const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  if (digits == 0 || digits > kDigits) return -1;
  return *ParseNumber<int64_t>(rest.substr(0, digits));
}

bool IsIgnorable(const Family& family, std::string_view name) {
  return std::ranges::any_of(family.table->ignored, [&](std::string_view pattern) {
    const size_t at = pattern.find('{');
    if (at == std::string_view::npos) return name == pattern;
    const std::string_view head = pattern.substr(0, at);
    const std::string_view tail = pattern.substr(pattern.find('}') + 1);
    const size_t around = head.size() + tail.size();
    return name.size() > around && name.starts_with(head) && name.ends_with(tail) &&
           std::ranges::all_of(name.substr(at, name.size() - around), IsDigit);
  });
}

bool IsCarried(const Model& model, std::string_view name) {
  return std::ranges::any_of(model.carried, [&](std::string_view pattern) {
    if (!pattern.ends_with('*')) return name == pattern;
    return name.starts_with(pattern.substr(0, pattern.size() - 1));
  });
}

std::string NoTableText(const ModelConfig& config) {
  const std::vector<FamilyHead> families = BuiltInFamilies();
  const bool has_others = std::ranges::any_of(families, [&](const FamilyHead& family) {
    return family.types.empty() && config.model_type == family.name;
  });
  return fmt::format(
      "no parameter table for model_type \"{}\"{}; {} families have one (nxdkit-make-model --help "
      "names them, --family FILE gives another)",
      config.model_type,
      has_others ? fmt::format(", architecture \"{}\"", config.architecture) : "", families.size());
}

}  // namespace nxdkit::models
