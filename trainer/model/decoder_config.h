// What the forward pass needs of a config.json, beyond the shapes of formats/models: llama, qwen2
// and qwen3, dense, with SiLU; with an lm_head, or with one score of each token in its place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/models/model.h"

namespace nxdkit::trainer {

struct DecoderConfig {
  models::Model model;
  float rms_eps = 1e-6f;
  int64_t max_positions = 0;
  std::vector<float> rope_frequencies;  // [D/2], scaling applied; radians per position
  bool head_norm = false;               // RMSNorm over each query and key head (qwen3)
};

// Reads the rotary embedding (default, linear, llama3) as transformers 5 does: rope_scaling wins
// over rope_parameters, a top-level rope_theta counts where the winner has none, and llama3 takes
// max_position_embeddings as the original length where none is given. kCorrupt where transformers
// refuses: a type without its factors. kUnsupported, naming the key, for what changes the
// arithmetic and is not built: other activations, attention dropout, sliding windows in use, other
// rope types, rotary embedding of a part of each head, biases of the output or MLP projections,
// more than one score, other families.
Result<DecoderConfig> ParseDecoderConfig(std::string_view json_text, const std::string& path);

}  // namespace nxdkit::trainer
