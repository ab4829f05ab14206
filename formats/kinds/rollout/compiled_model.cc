#include "formats/kinds/rollout/compiled_model.h"

#include <fmt/core.h>

#include <map>

#include "formats/models/gqa.h"
#include "lib/base/errors.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

// Keys of a Hugging Face config whose values end up in a compiled graph, as shapes or constants.
constexpr const char* kCompiledKeys[] = {"model_type",          "hidden_size",
                                         "intermediate_size",   "num_hidden_layers",
                                         "vocab_size",          "num_attention_heads",
                                         "num_key_value_heads", "head_dim",
                                         "attention_bias",      "mlp_bias",
                                         "hidden_act",          "rms_norm_eps",
                                         "rope_theta",          "rope_scaling",
                                         "rope_parameters",     "partial_rotary_factor",
                                         "use_sliding_window",  "sliding_window",
                                         "max_window_layers",   "layer_types",
                                         "num_local_experts",   "num_experts",
                                         "num_experts_per_tok", "moe_intermediate_size",
                                         "norm_topk_prob",      "decoder_sparse_step",
                                         "mlp_only_layers"};

Result<Json> ParseObject(const ConfigText& config) {
  NXDKIT_ASSIGN(Json json, ParseJson(config.text, kLikePython).in(config.path));
  if (json.is_object()) return json;
  return Corrupt("found {}, expected an object", JsonTypeText(json)).in(config.path);
}

// 500000 and 500000.0 are the same number.
bool SameValue(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.get<double>() == b.get<double>();
  return a == b;
}

// Different head counts are a difference of strategy if the ranks hold different heads.
Result<std::vector<Finding>> CompareHeads(const ConfigText& weights, const ConfigText& compiled,
                                          int64_t tp) {
  std::vector<Finding> findings;
  NXDKIT_ASSIGN(const models::ModelConfig a, models::ParseConfig(weights.text, weights.path));
  NXDKIT_ASSIGN(const models::ModelConfig b, models::ParseConfig(compiled.text, compiled.path));
  if (a.family == nullptr || b.family == nullptr) return findings;
  const std::string model = HeadsText(a, tp);
  const std::string bundle = HeadsText(b, tp);
  if (model != bundle)
    findings.push_back(
        Finding("gqa", fmt::format("GQA strategy: the bundle was compiled for {}, the model has {}",
                                   bundle, model))
            .in(compiled.path)
            .differs(model, bundle));
  return findings;
}

}  // namespace

std::string HeadsText(const models::ModelConfig& config, int64_t tp) {
  const models::RolloutHeads heads = models::RolloutPlacement(config.heads, config.kv_heads, tp);
  return fmt::format("{} query and {} key heads stored as {} and {} ({})", config.heads,
                     config.kv_heads, heads.padded_query, heads.padded_kv,
                     models::GqaStrategyName(heads.strategy));
}

Result<ConfigText> CompiledModel(const rollout::Bundle& bundle) {
  ConfigText config{"", JoinPath(bundle.folder, "config.json")};
  NXDKIT_ASSIGN(const bool has_config, IsFile(config.path));
  if (has_config) {
    NXDKIT_ASSIGN(config.text, ReadSmallFile(config.path, models::kMaxConfigBytes));
  } else if (bundle.config && bundle.config->flavor == rollout::Flavor::kNxdi) {
    config = {bundle.config_text, JoinPath(bundle.folder, "neuron_config.json")};
  }
  return config;
}

Result<std::vector<Finding>> CompareModels(const ConfigText& weights, const ConfigText& compiled,
                                           int64_t tp) {
  std::vector<Finding> findings;
  if (weights.text.empty() || compiled.text.empty()) return findings;
  NXDKIT_ASSIGN(const Json model, ParseObject(weights));
  NXDKIT_ASSIGN(const Json bundle, ParseObject(compiled));
  for (const char* key : kCompiledKeys) {
    const Json* a = JsonFind(model, key);
    const Json* b = JsonFind(bundle, key);
    if (!a || !b || SameValue(*a, *b)) continue;
    findings.push_back(
        Finding("config", fmt::format("{}: the bundle was compiled for {}, the model has {}", key,
                                      JsonExcerpt(*b), JsonExcerpt(*a)))
            .in(compiled.path)
            .differs(JsonExcerpt(*a), JsonExcerpt(*b)));
  }
  NXDKIT_ASSIGN(std::vector<Finding> heads, CompareHeads(weights, compiled, tp));
  findings.insert(findings.end(), heads.begin(), heads.end());
  return findings;
}

std::vector<Finding> CompareShard(const TensorFile& compiled, int64_t rank,
                                  std::span<const OutputTensor> model) {
  std::vector<Finding> findings;
  const auto add = [&](const std::string& tensor, std::string found, std::string expected,
                       std::string message) {
    findings.push_back(Finding("shard", std::move(message))
                           .in(compiled.path)
                           .on(tensor)
                           .at_rank(rank)
                           .differs(std::move(found), std::move(expected)));
  };
  std::map<std::string_view, const StoredTensor*> there;
  for (const StoredTensor& tensor : compiled.tensors) there[tensor.name] = &tensor;
  size_t common = 0;
  for (const OutputTensor& tensor : model) {
    const auto it = there.find(tensor.name);
    if (it == there.end()) {
      add(tensor.name, "", "", "the bundle was compiled without this tensor");
      continue;
    }
    ++common;
    if (it->second->shape == tensor.shape && it->second->dtype == tensor.dtype) continue;
    const auto text = [](Dtype dtype, const Shape& shape) {
      return fmt::format("{} {}", Name(dtype), ShapeText(shape));
    };
    const std::string found = text(tensor.dtype, tensor.shape);
    const std::string expected = text(it->second->dtype, it->second->shape);
    add(tensor.name, found, expected,
        fmt::format("the bundle was compiled for {}, the model gives {}", expected, found));
  }
  if (common != there.size())
    add("", fmt::format("{}", model.size()), fmt::format("{}", there.size()),
        fmt::format("the bundle was compiled for {} tensors per rank, the model gives {}",
                    there.size(), model.size()));
  return findings;
}

}  // namespace nxdkit::kinds
