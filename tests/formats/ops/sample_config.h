// PRIVATE to tests. Configurations of small models, one for each way that a layout can be
// difficult.
#pragma once

#include <string>

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

  std::string Config() const {
    const std::string name = family == "llama" ? "Llama" : family == "qwen2" ? "Qwen2" : "Qwen3";
    const Json json = {{"architectures", {name + "ForCausalLM"}},
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
    return json.dump(2) + "\n";
  }
};

inline TinyModel TinyLlama() { return {}; }
// Biases of q, k and v; tied embeddings.
inline TinyModel TinyQwen2() { return {.family = "qwen2", .tied = true}; }
// Heads wider than hidden / heads; norms of q and k; tied embeddings.
inline TinyModel TinyQwen3() { return {.family = "qwen3", .head_dim = 8, .tied = true}; }
// One key head for each query head.
inline TinyModel TinyMha() { return {.heads = 8, .kv_heads = 8}; }

}  // namespace nxdkit::testing_util
