#include "formats/lora/read_config.h"

#include <algorithm>
#include <cmath>

#include "formats/lora/peft_types.h"
#include "lib/base/errors.h"
#include "lib/json/json_reader.h"

namespace nxdkit::lora {
namespace {

constexpr int64_t kMaxRank = 1 << 16;
// In each list. Every module of the file is compared with each name.
constexpr size_t kMaxNames = 10'000;
constexpr size_t kMaxTokens = 1'000'000;
constexpr size_t kMaxExpressions = 256;  // in each pattern; every module is compared with them

// Keys that do not affect the meaning of the tensors once an adapter is trained.
constexpr std::string_view kSilent[] = {
    "auto_mapping", "corda_config", "eva_config", "inference_mode", "loftq_config",
    "lora_ga_config", "megatron_core", "merge_lora", "peft_version", "qalora_group_size",
    "revision", "runtime_config", "save_lora_base", "save_lora_config_adapter",
    "merge_sharded_lora", "lora_verbose", "lora_save_dir", "lora_load_tag",
    // of ms-swift, unsloth and the first releases of PEFT
    "lora_dtype", "lorap_emb_lr", "lorap_lr_ratio", "merge_weights", "model_key_mapping",
    "unsloth_fixed"};
// Keys that are read below.
constexpr std::string_view kRead[] = {"alpha_pattern",
                                      "base_model_name_or_path",
                                      "bias",
                                      "ensure_weight_tying",
                                      "exclude_modules",
                                      "init_lora_weights",
                                      "layers_pattern",
                                      "layers_to_transform",
                                      "lora_alpha",
                                      "lora_dropout",
                                      "lora_rank",
                                      "modules_to_save",
                                      "peft_type",
                                      "r",
                                      "rank_pattern",
                                      "target_modules",
                                      "task_type",
                                      "trainable_token_indices",
                                      "use_dora",
                                      "use_rslora"};
// Keys that change the meaning of the tensors, each with the work it would take to support it.
struct Refused {
  std::string_view key;
  const char* why;
};
constexpr Refused kRefused[] = {
    {"alora_invocation_tokens",
     "the adapter acts after some tokens only; weights cannot express that"},
    {"arrow_config", "adapters are chosen as the model runs; weights cannot express that"},
    {"fan_in_fan_out", "its layers store [in, out]; those of the models here store [out, in]"},
    {"layer_replication", "layers of the base are repeated; the base has fewer than the result"},
    {"lora_bias", "B has a bias of its own, which the base's layers have no place for"},
    {"megatron_config", "its layers are cut for tensor parallel ranks in a way of their own"},
    {"kasa_config", "singular values of the base's weights are cut and trained"},
    {"monteclora_config", "A and B are resampled during training"},
    {"target_parameters", "parameters other than the weights of modules are adapted"},
    {"velora_config", "the inputs of the layers are projected during training"},
    {"use_bdlora", "A or B is block diagonal"},
    {"use_qalora", "A belongs to pooled inputs of a quantised layer"},
};
// Ways to begin training that leave the base unchanged.
constexpr std::string_view kPlainInits[] = {"default", "gaussian", "eva", "orthogonal"};

// Nothing, off, or empty: whatever the option is, it is not used.
bool IsOff(const Json& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  return (value.is_array() || value.is_object() || value.is_string()) && value.empty();
}

Error Found(std::string_view key, const Json& value, const char* expected) {
  return Corrupt("found {}, expected {}", JsonExcerpt(value), expected).member(key);
}

Status CheckKey(const std::string& key, const Json& value) {
  const auto is_in = [&](const auto& keys) {
    return std::ranges::find(keys, key) != std::end(keys);
  };
  if (is_in(kRead) || is_in(kSilent) || IsOff(value)) return OkStatus();
  for (const Refused& refused : kRefused)
    if (key == refused.key)
      return Unsupported("the option is {}: {}", JsonExcerpt(value), refused.why)
          .member(key)
          .hint(kMergeWithPeft);
  return Unsupported("the option is {}, and this program does not know what it changes",
                     JsonExcerpt(value))
      .member(key);
}

// PiSSA, OLoRA and similar methods subtract the initial A and B from the base: the adapter then
// belongs to a changed base.
Status CheckInit(const Json& json) {
  const Json* init = JsonFind(json, "init_lora_weights");
  if (!init || init->is_boolean()) return OkStatus();
  if (!init->is_string()) return Found("init_lora_weights", *init, "a word, true or false");
  const std::string word = init->get<std::string>();
  if (std::ranges::find(kPlainInits, word) != std::end(kPlainInits)) return OkStatus();
  return Unsupported(
             "the adapter was initialised as \"{}\", which may have changed the base too: added to "
             "the original base it would give another model",
             word)
      .member("init_lora_weights")
      .hint(
          "have PEFT convert it to plain LoRA when it saves "
          "(path_initial_model_for_weight_conversion)");
}

Status ReadType(const Json& json) {
  const Json* type = JsonFind(json, "peft_type");
  if (!type) return OkStatus();  // NxD writes none
  if (!type->is_string()) return Found("peft_type", *type, "\"LORA\"");
  if (*type == "LORA") return OkStatus();
  const PeftType* const known = FindPeftType(type->get<std::string>());
  if (!known)
    return Unsupported("found {}, which is not a kind of PEFT adapter; \"LORA\" is supported",
                       JsonExcerpt(*type))
        .member("peft_type");
  if (known->form == PeftForm::kInputs)
    return Unsupported("found {}: {} adds to the model's inputs, which weights cannot express",
                       JsonExcerpt(*type), PeftTypeText(*known))
        .member("peft_type")
        .hint("it is used with its base, by PEFT; only a model's own weights are converted");
  return Unsupported("found {}: {}, which changes weights in a way of its own; LoRA is supported",
                     JsonExcerpt(*type), PeftTypeText(*known))
      .member("peft_type")
      .hint(kMergeWithPeft);
}

Result<int64_t> RankIn(std::string_view key, const Json& value) {
  if (value.is_number_integer() && value.get<int64_t>() >= 1 && value.get<int64_t>() <= kMaxRank)
    return value.get<int64_t>();
  return Found(key, value, "a rank from 1 to 65536");
}

Result<double> NumberIn(std::string_view key, const Json& value) {
  if (value.is_number() && std::isfinite(value.get<double>())) return value.get<double>();
  return Found(key, value, "a number");
}

Status ReadRank(const Json& json, Config& config) {
  for (const char* key : {"r", "lora_rank"}) {
    const Json* value = JsonFind(json, key);
    if (!value) continue;
    NXDKIT_ASSIGN(const int64_t rank, RankIn(key, *value));
    if (config.rank > 0 && rank != config.rank)
      return Corrupt("found {}, but r is {}", rank, config.rank).member(key);
    config.rank = rank;
  }
  if (config.rank == 0) return Corrupt("missing; expected a rank from 1 to 65536").member("r");
  const Json* alpha = JsonFind(json, "lora_alpha");
  if (!alpha) return Corrupt("missing; expected a number").member("lora_alpha");
  NXDKIT_ASSIGN(config.alpha, NumberIn("lora_alpha", *alpha));
  if (config.alpha != 0) return OkStatus();
  // verl's model merger writes 0, because its checkpoints do not record it.
  return Corrupt("found 0, with which the adapter adds nothing")
      .member("lora_alpha")
      .hint(
          "put the lora_alpha of the training run into the file (verl keeps it in "
          "lora_train_meta.json)");
}

// A list of names, or one string, which is a pattern.
Status ReadNames(const Json& json, const char* key, std::vector<std::string>& names,
                 bool* is_a_pattern) {
  const Json* value = JsonFind(json, key);
  if (!value) return OkStatus();
  if (value->is_string() && is_a_pattern) {
    *is_a_pattern = true;
    names = {value->get<std::string>()};
    return OkStatus();
  }
  if (!value->is_array() || value->size() > kMaxNames) return Found(key, *value, "a list of names");
  for (const Json& item : *value) {
    if (!item.is_string() || item.empty() || item.get<std::string>().empty())
      return Found(key, item, "the name of a module");
    names.push_back(item.get<std::string>());
  }
  return OkStatus();
}

void ReadBias(JsonReader& reader, Config& config) {
  const std::string word = reader.Text("bias", "none");
  for (const Bias bias : {Bias::kNone, Bias::kAll, Bias::kLoraOnly})
    if (word == BiasName(bias)) {
      config.bias = bias;
      return;
    }
  reader.Fail("bias", fmt::format("found {}, expected \"none\", \"all\" or \"lora_only\"",
                                  JsonExcerpt(word)));
}

Status ReadLayers(const Json& json, Config& config) {
  if (const Json* pattern = JsonFind(json, "layers_pattern"); pattern && !IsOff(*pattern)) {
    if (*pattern != "layers" && *pattern != Json::array({"layers"}))
      return Unsupported("found {}; the layers of the models here are counted below \"layers\"",
                         JsonExcerpt(*pattern))
          .member("layers_pattern");
  }
  const Json* value = JsonFind(json, "layers_to_transform");
  if (!value || (value->is_array() && value->empty())) return OkStatus();
  std::vector<int64_t>& layers = config.layers.emplace();
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > kMaxNames) return Found("layers_to_transform", *value, "fewer layers");
  for (const Json& item : list) {
    if (!item.is_number_integer() || item.get<int64_t>() < 0)
      return Found("layers_to_transform", item, "the number of a layer");
    layers.push_back(item.get<int64_t>());
  }
  return OkStatus();
}

template <typename T>
Status ReadPattern(const Json& json, const char* key,
                   Result<T> (*read)(std::string_view, const Json&),
                   std::vector<std::pair<ModulePattern, T>>& out) {
  const Json* value = JsonFind(json, key);
  if (!value) return OkStatus();
  if (!value->is_object() || value->size() > kMaxNames) return Found(key, *value, "an object");
  size_t expressions = 0;
  for (const auto& [name, item] : value->items()) {
    NXDKIT_ASSIGN(ModulePattern pattern, ModulePattern::Compile(name).member(key));
    expressions += !pattern.is_name();
    if (expressions > kMaxExpressions)
      return Unsupported("more than {} regular expressions", kMaxExpressions).member(key);
    NXDKIT_ASSIGN(const T number, read(key, item));
    out.push_back({std::move(pattern), number});
  }
  return OkStatus();
}

Status ReadRows(const Json& list, const std::string& module, Config& config) {
  constexpr const char* kKey = "trainable_token_indices";
  if (!list.is_array() || list.size() > kMaxTokens) return Found(kKey, list, "a list of tokens");
  std::vector<int64_t> rows;
  for (const Json& item : list) {
    if (!item.is_number_integer() || item.get<int64_t>() < 0)
      return Found(kKey, item, "the number of a token");
    rows.push_back(item.get<int64_t>());
  }
  std::vector<int64_t> sorted = rows;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end())
    return Corrupt("a token is named twice").member(kKey);
  config.tokens.push_back({module, std::move(rows)});
  return OkStatus();
}

// A list has the embedding's rows, an object the rows of each module.
Status ReadTokens(const Json& json, Config& config) {
  const Json* value = JsonFind(json, "trainable_token_indices");
  if (!value || IsOff(*value)) return OkStatus();
  if (!value->is_object()) return ReadRows(*value, "embed_tokens", config);
  if (value->size() > kMaxNames) return Found("trainable_token_indices", *value, "fewer modules");
  for (const auto& [module, list] : value->items()) {
    if (module.empty()) return Found("trainable_token_indices", module, "the name of a module");
    NXDKIT_TRY(ReadRows(list, module, config));
  }
  return OkStatus();
}

Result<Config> Read(const Json& json, const std::string& path) {
  Config config;
  NXDKIT_TRY(ReadType(json));  // another kind has other keys
  for (const auto& [key, value] : json.items()) NXDKIT_TRY(CheckKey(key, value));
  NXDKIT_TRY(CheckInit(json));
  NXDKIT_TRY(ReadRank(json, config));
  JsonReader reader(json, path);
  config.rslora = reader.Flag("use_rslora");
  config.dora = reader.Flag("use_dora");
  config.ties = reader.Flag("ensure_weight_tying");
  ReadBias(reader, config);
  config.base_model = reader.Text("base_model_name_or_path");
  config.task_type = reader.Text("task_type");
  NXDKIT_TRY(reader.status());
  NXDKIT_TRY(ReadNames(json, "target_modules", config.targets, &config.targets_are_a_pattern));
  NXDKIT_TRY(ReadNames(json, "exclude_modules", config.excluded, &config.excluded_is_a_pattern));
  NXDKIT_TRY(ReadNames(json, "modules_to_save", config.modules_to_save, nullptr));
  NXDKIT_TRY(ReadLayers(json, config));
  NXDKIT_TRY(ReadTokens(json, config));
  NXDKIT_TRY(ReadPattern(json, "rank_pattern", RankIn, config.rank_pattern));
  NXDKIT_TRY(ReadPattern(json, "alpha_pattern", NumberIn, config.alpha_pattern));
  if (const Json* dropout = JsonFind(json, "lora_dropout"))
    NXDKIT_TRY(NumberIn("lora_dropout", *dropout).To(config.dropout));
  return config;
}

}  // namespace

Result<Config> ParseConfig(std::string_view json_text, const std::string& path) {
  // Written by Python: NaN may occur, and the last of equal keys counts.
  NXDKIT_ASSIGN(const Json json, ParseJson(json_text, kLikePython).in(path));
  if (!json.is_object())
    return Corrupt("found {}, expected an object", JsonTypeText(json)).in(path);
  return Read(json, path).in(path);
}

}  // namespace nxdkit::lora
