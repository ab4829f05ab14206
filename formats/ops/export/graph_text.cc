// What the key of a compiled blob is made of.
#include <algorithm>
#include <array>

#include "formats/models/gqa.h"
#include "formats/ops/export/export.h"
#include "lib/json/json.h"

namespace nxdkit::ops {
namespace {

// Keys of a config.json that change nothing in a graph.
constexpr std::array<std::string_view, 14> kOutsideOfGraph = {"_name_or_path",
                                                              "transformers_version",
                                                              "_diffusers_version",
                                                              "eos_token_id",
                                                              "bos_token_id",
                                                              "pad_token_id",
                                                              "torchscript",
                                                              "torch_dtype",
                                                              "dtype",
                                                              "_commit_hash",
                                                              "use_cache",
                                                              "return_dict",
                                                              "_attn_implementation_autoset",
                                                              "initializer_range"};

}  // namespace

std::string GraphText(const std::string& config_text, const rollout::NeuronConfig& neuron,
                      const models::ModelConfig& model) {
  Json config = Json::object();
  const Result<Json> parsed =
      ParseJson(config_text, {.allow_nan = true, .allow_duplicate_keys = true});
  if (parsed.ok() && parsed->is_object())
    for (const auto& [key, value] : parsed->items())
      if (std::ranges::find(kOutsideOfGraph, key) == kOutsideOfGraph.end()) config[key] = value;
  const models::GqaStrategy strategy =
      models::RolloutPlacement(model.heads, model.kv_heads, neuron.tp).strategy;
  return DumpPython(Json{{"model", std::move(config)},
                         {"neuron",
                          {{"batch_size", neuron.batch_size},
                           {"dtype", neuron.torch_dtype},
                           {"flavor", rollout::FlavorName(neuron.flavor)},
                           {"fused_qkv", neuron.fused_qkv},
                           {"gqa_strategy", models::GqaStrategyName(strategy)},
                           {"sequence_length", neuron.sequence_length},
                           {"tp_degree", neuron.tp}}},
                         {"schema", "nxdkit-graph"},
                         {"version", 1}}) +
         "\n";
}

}  // namespace nxdkit::ops
