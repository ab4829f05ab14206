// PRIVATE to tests. Configurations of small models, one for each way that a layout can be
// difficult.
#pragma once

#include <string>
#include <utility>

#include "lib/json/json.h"

namespace nxdkit::testing_util {

struct TinyModel {
  std::string family = "llama";
  int64_t hidden = 32;
  int64_t intermediate = 48;
  int64_t layers = 4;
  int64_t heads = 8;
  int64_t kv_heads = 2;
  int64_t head_dim = 4;
  int64_t vocab = 64;
  bool tied = false;
  int64_t experts = 0;
  bool score = false;   // one score per token in place of the lm_head
  bool biases = false;  // on every projection that can have one in the family
  int64_t window = 0;   // of attention, in every layer but the first (qwen)

  std::string Config() const {
    const bool training_only = family == "bert" || family == "gpt_neox";
    Json json = {{"architectures", {Architecture()}},
                 {"head_dim", head_dim},
                 {"hidden_size", hidden},
                 {"intermediate_size", intermediate},
                 {"model_type", family},
                 {"num_attention_heads", heads},
                 {"num_hidden_layers", layers},
                 {"num_key_value_heads", kv_heads},
                 {"tie_word_embeddings", tied},
                 {"torch_dtype", "bfloat16"},
                 {"vocab_size", vocab}};
    if (training_only) {
      json["max_position_embeddings"] = 20;
      json["type_vocab_size"] = 2;
    }
    if (biases) json["attention_bias"] = json["mlp_bias"] = true;
    if (window > 0) {
      json["use_sliding_window"] = true;
      json["sliding_window"] = window;
      json["max_window_layers"] = 1;
    }
    if (score) json["id2label"] = {{"0", "LABEL_0"}};
    if (experts > 0) {
      json[family == "mixtral" ? "num_local_experts" : "num_experts"] = experts;
      json["num_experts_per_tok"] = 2;
      if (family == "qwen3_moe") json["moe_intermediate_size"] = 16;
    }
    return json.dump(2) + "\n";
  }

 private:
  std::string Architecture() const {
    if (family == "bert") return "BertForPreTraining";
    constexpr std::pair<const char*, const char*> kNames[] = {
        {"gpt_neox", "GPTNeoX"}, {"llama", "Llama"}, {"mixtral", "Mixtral"},
        {"qwen2", "Qwen2"},      {"qwen3", "Qwen3"}, {"qwen3_moe", "Qwen3Moe"}};
    for (const auto& [type, name] : kNames)
      if (family == type)
        return std::string(name) + (score ? "ForTokenClassification" : "ForCausalLM");
    return "";
  }
};

inline TinyModel TinyLlama() { return {}; }
// Biases of q, k and v; tied embeddings.
inline TinyModel TinyQwen2() { return {.family = "qwen2", .tied = true}; }
// Heads wider than hidden / heads; norms of q and k; tied embeddings.
inline TinyModel TinyQwen3() { return {.family = "qwen3", .head_dim = 8, .tied = true}; }
// Experts in place of the MLP.
inline TinyModel TinyMixtral() { return {.family = "mixtral", .experts = 4}; }
inline TinyModel TinyQwen3Moe() { return {.family = "qwen3_moe", .head_dim = 8, .experts = 4}; }
// A value for each token: no lm_head, so tied embeddings have no effect.
inline TinyModel TinyScore() {
  return {.family = "qwen3", .head_dim = 8, .tied = true, .score = true};
}
// Families that training sets support and rollout bundles do not.
inline TinyModel TinyGptNeox() { return {.family = "gpt_neox", .kv_heads = 8}; }
inline TinyModel TinyBert() { return {.family = "bert", .kv_heads = 8, .tied = true}; }
// Biases of all projections.
inline TinyModel TinyBiased() { return {.biases = true}; }
// Windows of attention, and biases of all projections of attention.
inline TinyModel TinyWindowed() {
  return {.family = "qwen3", .head_dim = 8, .biases = true, .window = 3};
}
// One key head for each query head.
inline TinyModel TinyMha() { return {.heads = 8, .kv_heads = 8}; }

}  // namespace nxdkit::testing_util
