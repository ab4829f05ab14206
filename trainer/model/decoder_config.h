// The parts of a config.json that the forward pass needs, beyond the shapes of formats/models:
// llama, qwen2 and qwen3, dense, with SiLU; with an lm_head, or with one score per token in its
// place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/models/model.h"
#include "trainer/kernels/rope.h"

namespace nxdkit::trainer {

struct DecoderConfig {
  models::Model model;
  float rms_eps = 1e-6f;
  int64_t max_positions = 0;
  RopeRule rope;
  // The number of tokens that a token sees in each layer, itself included; 0: all.
  std::vector<int64_t> windows;
};

// Reads the rotary embedding (default, linear, dynamic, yarn, llama3) as transformers 5 does:
// rope_scaling wins over rope_parameters, a top-level rope_theta applies if the winner has none,
// and llama3 and yarn default to max_position_embeddings as the original length; and the windows of
// qwen's layers. kCorrupt where transformers refuses: a type without its factors. kUnsupported,
// naming the key, for arithmetic that is not implemented: other activations, attention dropout,
// other rope types, rotary embedding of a part of each head, more than one score, other families;
// and for an unknown key whose value turns something on.
Result<DecoderConfig> ParseDecoderConfig(std::string_view json_text, const std::string& path);

}  // namespace nxdkit::trainer
