#include "formats/models/model.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json_reader.h"

namespace nxdkit::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;
constexpr int64_t kMaxExtent = int64_t{1} << 30;  // the product of two, times 3, fits int64
constexpr int64_t kDefaultLabels = 2;
constexpr int64_t kMaxHeads = 1 << 16;
constexpr int64_t kMaxExperts = 4096;
constexpr int64_t kMaxExpertsInAll = 1 << 18;  // of all layers: each is three parameters

const Family* FindFamily(const std::string& model_type, const std::string& architecture) {
  for (const Family* family : Families())
    if (model_type == family->model_type &&
        (!family->by_architecture || architecture == family->architecture))
      return family;
  for (const Family* family : Families())
    if (model_type.empty() && architecture == family->architecture) return family;
  return nullptr;
}

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

bool BiasOf(Family::Bias rule, bool config) {
  return rule == Family::Bias::kAlways || (rule != Family::Bias::kNever && config);
}

bool Uses(const Family& family, Dim dim) {
  return std::ranges::any_of(family.rows, [&](const ParamRow& row) { return row.rows == dim; });
}

// The heads that transformers puts in the place of the lm_head: a score of each label for every
// token, with a bias, or for the whole sequence, without one. How many labels there are is kept as
// their names; without any there are two.
void ReadScoreHead(JsonReader& reader, ModelConfig& config) {
  const bool tokens = config.architecture.ends_with("ForTokenClassification");
  const bool sequences = config.architecture.ends_with("ForSequenceClassification");
  if ((!tokens && !sequences) || !Uses(*config.family, Dim::kLabels)) return;
  const Json* names = reader.Find("id2label");
  const bool named = names && names->is_object() && !names->empty();
  config.labels = named ? static_cast<int64_t>(names->size())
                        : reader.Int("num_labels", kDefaultLabels, 1, kMaxExtent);
  config.score_bias = tokens;
  config.tied = false;
}

// Ascending.
std::vector<int64_t> ReadDenseLayers(JsonReader& reader) {
  constexpr const char* kKey = "mlp_only_layers";
  std::vector<int64_t> layers;
  const Json* list = reader.Find(kKey);
  if (!list) return layers;
  if (!list->is_array())
    reader.Fail(kKey, fmt::format("found {}, expected an array of integers", JsonExcerpt(*list)));
  for (const Json& layer : *list)
    if (layer.is_number_integer())
      layers.push_back(layer.get<int64_t>());
    else
      reader.Fail(kKey, fmt::format("found {}, expected an integer", JsonExcerpt(layer)));
  std::ranges::sort(layers);
  return layers;
}

// transformers 4 and 5 spell it differently. Where both are there and differ, which one counts
// depends on the reader.
int64_t ReadExpertCount(JsonReader& reader, const char* own) {
  constexpr std::array kSpellings = {"num_experts", "num_local_experts"};
  std::optional<int64_t> count;
  for (const char* key : kSpellings) {
    if (!reader.Find(key)) continue;
    const int64_t found = reader.Int(key, std::nullopt, 1, kMaxExperts);
    if (count && *count != found)
      reader.Fail(key, fmt::format("found {}, and {} is {}", found, kSpellings[0], *count));
    count = found;
  }
  return count ? *count : reader.Int(own, std::nullopt, 1, kMaxExperts);
}

void ReadExperts(JsonReader& reader, ModelConfig& config) {
  const ExpertKeys& keys = config.family->experts;
  if (!keys.count) return;
  config.experts = ReadExpertCount(reader, keys.count);
  config.expert_intermediate = reader.Int(keys.intermediate, std::nullopt, 1, kMaxExtent);
  if (keys.dense_layers) {
    config.sparse_step = reader.Int("decoder_sparse_step", 1, 1, kMaxLayers);
    config.dense_layers = ReadDenseLayers(reader);
  }
  if (config.experts * config.layers > kMaxExpertsInAll)
    reader.Fail(keys.count, fmt::format("{} experts in each of {} layers are over the limit of {} "
                                        "in all",
                                        config.experts, config.layers, kMaxExpertsInAll));
}

int64_t Extent(const ModelConfig& config, Dim dim) {
  const int64_t extents[] = {
      0, config.vocab, config.hidden, config.intermediate, config.heads * config.head_dim,
      config.kv_heads * config.head_dim, config.head_dim,
      // q, k and v of each head.
      config.heads * 3 * config.head_dim, config.experts, config.expert_intermediate,
      config.positions, config.token_types, config.labels, 2};
  static_assert(std::size(extents) == static_cast<size_t>(Dim::kTwo) + 1);
  return extents[static_cast<size_t>(dim)];
}

bool Exists(const ModelConfig& config, When when, int layer) {
  const bool scores = config.labels > 0;
  const bool exists[] = {true, !config.tied && !scores, scores, scores && config.score_bias,
                         config.qkv_bias, config.output_bias, config.mlp_bias,
                         // Experts, or one MLP.
                         config.IsSparse(layer), !config.IsSparse(layer)};
  static_assert(std::size(exists) == static_cast<size_t>(When::kDenseLayer) + 1);
  return exists[static_cast<size_t>(when)];
}

bool IsLayered(const ParamRow& row) {
  return std::string_view(row.name).find("{}") != std::string_view::npos;
}

constexpr std::string_view kExpertMark = "{e}";

bool IsPerExpert(const ParamRow& row) {
  return std::string_view(row.name).find(kExpertMark) != std::string_view::npos;
}

void Put(std::string& name, std::string_view mark, int number) {
  const size_t at = name.find(mark);
  if (at != std::string::npos) name.replace(at, mark.size(), std::to_string(number));
}

Param MakeParam(const ModelConfig& config, const ParamRow& row, int layer, int expert) {
  Param param{row.name, row.role, layer, {Extent(config, row.rows)}, expert};
  Put(param.name, "{}", layer);
  Put(param.name, kExpertMark, expert);
  if (row.columns != Dim::kNone) param.shape.push_back(Extent(config, row.columns));
  return param;
}

// The rows of one layer, or (layer -1) of none, in the table's order.
void AddParams(Model& model, std::span<const ParamRow> rows, int layer) {
  while (!rows.empty()) {
    const bool repeated = IsPerExpert(rows.front());
    size_t count = 1;
    while (count < rows.size() && IsPerExpert(rows[count]) == repeated) ++count;
    const int64_t times = repeated ? model.config.experts : 1;
    for (int expert = 0; expert < times; ++expert)
      for (const ParamRow& row : rows.first(count))
        if (Exists(model.config, row.when, layer))
          model.params.push_back(MakeParam(model.config, row, layer, repeated ? expert : -1));
    rows = rows.subspan(count);
  }
}

// Rows of one head, along the dimension that is cut; 0 when there are none.
int64_t HeadRows(const Param& param, const ModelConfig& config) {
  const Unit unit = RowOf(param.role).unit;
  if (unit == Unit::kQkvHead) return 3 * config.head_dim;
  return IsHead(unit) && param.CutDim() != kWhole ? config.head_dim : 0;
}

}  // namespace

namespace {

// The first is that of transformers, the second that of older compressed-tensors.
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

}  // namespace

Result<ModelConfig> ParseConfig(std::string_view json_text, const std::string& path) {
  // NxDI's merged file has bare Infinity; Python's json takes the last of duplicate keys.
  NXDKIT_ASSIGN(const Json json, ParseJson(json_text, kLikePython).in(path));
  if (!json.is_object())
    return Corrupt("found {}, expected an object", JsonTypeText(json)).in(path);

  JsonReader reader(json, path);
  ModelConfig config;
  config.model_type = reader.Text("model_type");
  config.architecture = Architecture(reader);
  NXDKIT_TRY(reader.status());
  if (config.model_type.empty() && config.architecture.empty())
    return Corrupt("neither model_type nor architectures is there: it says of no model what it is")
        .in(path);
  config.family = FindFamily(config.model_type, config.architecture);
  config.dtype = ConfigDtype(reader);
  config.quant_method = QuantMethod(json);
  NXDKIT_TRY(reader.status());
  if (!config.family) return config;

  config.hidden = reader.Int("hidden_size", std::nullopt, 1, kMaxExtent);
  config.intermediate = reader.Int("intermediate_size", std::nullopt, 1, kMaxExtent);
  config.layers = reader.Int("num_hidden_layers", std::nullopt, 1, kMaxLayers);
  config.heads = reader.Int("num_attention_heads", std::nullopt, 1, kMaxHeads);
  config.kv_heads = config.heads;
  if (SplitsQkv(*config.family))
    config.kv_heads = reader.Int("num_key_value_heads", config.heads, 1, kMaxHeads);
  config.vocab = reader.Int("vocab_size", std::nullopt, 1, kMaxExtent);
  const int64_t head_dim = config.family->head_dim;
  config.head_dim =
      reader.Int("head_dim", head_dim > 0 ? head_dim : config.hidden / config.heads, 1, kMaxExtent);
  if (Uses(*config.family, Dim::kPositions))
    config.positions = reader.Int("max_position_embeddings", std::nullopt, 1, kMaxExtent);
  if (Uses(*config.family, Dim::kTokenTypes))
    config.token_types = reader.Int("type_vocab_size", std::nullopt, 1, kMaxExtent);
  config.tied = reader.Flag("tie_word_embeddings", config.family->tied_by_default);
  const bool attention_bias =
      reader.Flag("attention_bias", config.family->qkv_bias == Family::Bias::kUnlessConfig);
  config.qkv_bias = BiasOf(config.family->qkv_bias, attention_bias);
  config.output_bias = BiasOf(config.family->output_bias, attention_bias);
  config.mlp_bias = config.family->mlp_bias_key && reader.Flag("mlp_bias");
  ReadScoreHead(reader, config);
  ReadExperts(reader, config);
  NXDKIT_TRY(reader.status());
  if (config.heads % config.kv_heads != 0)
    return Corrupt("{} is not a divisor of num_attention_heads {}", config.kv_heads, config.heads)
        .in(path)
        .member("num_key_value_heads");
  if (!JsonFind(json, "head_dim") && head_dim == 0 && config.hidden % config.heads != 0)
    return Corrupt("missing, and hidden_size {} is not a multiple of num_attention_heads {}",
                   config.hidden, config.heads)
        .in(path)
        .member("head_dim");
  if (config.heads * config.head_dim > kMaxExtent)
    return Corrupt("{} heads of {} rows are over the limit of {} rows", config.heads,
                   config.head_dim, kMaxExtent)
        .in(path)
        .member("head_dim");
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

int Param::CutDim() const {
  const int axis = RowOf(role).axis;
  return axis < static_cast<int>(shape.size()) ? axis : kWhole;
}

bool ModelConfig::IsSparse(int64_t layer) const {
  return experts > 0 && (layer + 1) % sparse_step == 0 &&
         !std::binary_search(dense_layers.begin(), dense_layers.end(), layer);
}

Result<Model> MakeModel(const ModelConfig& config) {
  if (!config.family)
    return Error(Errc::kUnsupported, NoTableText(config))
        .hint(
            "as hf or torch it can still be inspected, digested, compared and copied; shards of it "
            "can be inspected and packed");
  Model model{config, {}};
  // Rows before, inside and after the layers.
  const std::span<const ParamRow> rows = config.family->rows;
  const size_t first = static_cast<size_t>(std::ranges::find_if(rows, IsLayered) - rows.begin());
  size_t last = first;
  while (last < rows.size() && IsLayered(rows[last])) ++last;
  AddParams(model, rows.first(first), -1);
  for (int layer = 0; layer < config.layers; ++layer)
    AddParams(model, rows.subspan(first, last - first), layer);
  AddParams(model, rows.subspan(last), -1);
  return model;
}

std::optional<uint32_t> Model::Find(std::string_view name) const {
  for (uint32_t i = 0; i < params.size(); ++i)
    if (params[i].name == name) return i;
  return std::nullopt;
}

std::vector<LogicalTensor> Model::Logical() const {
  std::vector<LogicalTensor> out;
  for (const Param& param : params)
    out.push_back({param.name, param.shape, HeadRows(param, config), std::max(param.CutDim(), 0)});
  return out;
}

bool SplitsQkv(const Family& family) {
  return std::ranges::any_of(family.rows,
                             [](const ParamRow& row) { return row.role == Role::kQuery; });
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
  return std::ranges::any_of(family.ignorable, [&](std::string_view pattern) {
    const size_t at = pattern.find("{}");
    if (at == std::string_view::npos) return name == pattern;
    const std::string_view head = pattern.substr(0, at);
    const std::string_view tail = pattern.substr(at + 2);
    const size_t around = head.size() + tail.size();
    return name.size() > around && name.starts_with(head) && name.ends_with(tail) &&
           std::ranges::all_of(name.substr(at, name.size() - around), IsDigit);
  });
}

std::string NoTableText(const ModelConfig& config) {
  std::string names;
  bool by_architecture = false;
  for (const Family* family : Families()) {
    names += (names.empty() ? "" : ", ") + std::string(family->model_type);
    if (family->by_architecture) names += fmt::format(" ({})", family->architecture);
    by_architecture |= family->by_architecture && config.model_type == family->model_type;
  }
  return fmt::format(
      "no parameter table for model_type \"{}\"{}; there are tables for {}", config.model_type,
      by_architecture ? fmt::format(", architecture \"{}\"", config.architecture) : "", names);
}

}  // namespace nxdkit::models
