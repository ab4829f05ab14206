// PRIVATE to tests. Configurations of small models, one for each way that a layout can be
// difficult.
#pragma once

#include <string>
#include <utility>

#include "lib/json.h"

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

  std::string Config() const {
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
    if (experts > 0) {
      json[family == "mixtral" ? "num_local_experts" : "num_experts"] = experts;
      json["num_experts_per_tok"] = 2;
      if (family == "qwen3_moe") json["moe_intermediate_size"] = 16;
    }
    return json.dump(2) + "\n";
  }

 private:
  std::string Architecture() const {
    constexpr std::pair<const char*, const char*> kNames[] = {{"llama", "Llama"},
                                                              {"mixtral", "Mixtral"},
                                                              {"qwen2", "Qwen2"},
                                                              {"qwen3", "Qwen3"},
                                                              {"qwen3_moe", "Qwen3Moe"}};
    for (const auto& [type, name] : kNames)
      if (family == type) return std::string(name) + "ForCausalLM";
    return "";
  }
};

inline TinyModel TinyLlama() { return {}; }
// Biases of q, k and v; tied embeddings.
inline TinyModel TinyQwen2() { return {.family = "qwen2", .tied = true}; }
// Heads wider than hidden / heads; norms of q and k; tied embeddings.
inline TinyModel TinyQwen3() { return {.family = "qwen3", .head_dim = 8, .tied = true}; }
// Experts in the place of the MLP.
inline TinyModel TinyMixtral() { return {.family = "mixtral", .experts = 4}; }
inline TinyModel TinyQwen3Moe() { return {.family = "qwen3_moe", .head_dim = 8, .experts = 4}; }
// One key head for each query head.
inline TinyModel TinyMha() { return {.heads = 8, .kv_heads = 8}; }

}  // namespace nxdkit::testing_util
