// PRIVATE to formats/models. The rows that decoders of Llama's kind share, in the order of their
// state dicts. Rows of biases stand in all of them: a family that never has one says so in its
// Family.
#pragma once

#include <array>
#include <tuple>

#include "formats/models/family.h"

namespace nxdkit::models {

using enum Role;
using enum Dim;

inline constexpr std::array kBeginRows = {
    ParamRow{"model.embed_tokens.weight", kEmbedding, kVocab, kHidden},
    ParamRow{"model.layers.{}.self_attn.q_proj.weight", kQuery, kQueryRows, kHidden},
    ParamRow{"model.layers.{}.self_attn.q_proj.bias", kQuery, kQueryRows, kNone, When::kQkvBias},
    ParamRow{"model.layers.{}.self_attn.k_proj.weight", kKey, kKeyRows, kHidden},
    ParamRow{"model.layers.{}.self_attn.k_proj.bias", kKey, kKeyRows, kNone, When::kQkvBias},
    ParamRow{"model.layers.{}.self_attn.v_proj.weight", kValue, kKeyRows, kHidden},
    ParamRow{"model.layers.{}.self_attn.v_proj.bias", kValue, kKeyRows, kNone, When::kQkvBias},
    ParamRow{"model.layers.{}.self_attn.o_proj.weight", kOutput, kHidden, kQueryRows},
    ParamRow{"model.layers.{}.self_attn.o_proj.bias", kOutput, kHidden, kNone, When::kOutputBias},
};

inline constexpr std::array kHeadNormRows = {
    ParamRow{"model.layers.{}.self_attn.q_norm.weight", kQueryNorm, kHeadDim},
    ParamRow{"model.layers.{}.self_attn.k_norm.weight", kKeyNorm, kHeadDim},
};

inline constexpr std::array kMlpRows = {
    ParamRow{"model.layers.{}.mlp.gate_proj.weight", kGate, kIntermediate, kHidden},
    ParamRow{"model.layers.{}.mlp.gate_proj.bias", kGate, kIntermediate, kNone, When::kMlpBias},
    ParamRow{"model.layers.{}.mlp.up_proj.weight", kUp, kIntermediate, kHidden},
    ParamRow{"model.layers.{}.mlp.up_proj.bias", kUp, kIntermediate, kNone, When::kMlpBias},
    ParamRow{"model.layers.{}.mlp.down_proj.weight", kDown, kHidden, kIntermediate},
    ParamRow{"model.layers.{}.mlp.down_proj.bias", kDown, kHidden, kNone, When::kMlpBias},
};

inline constexpr std::array kEndRows = {
    ParamRow{"model.layers.{}.input_layernorm.weight", kReplicated, kHidden},
    ParamRow{"model.layers.{}.post_attention_layernorm.weight", kReplicated, kHidden},
    ParamRow{"model.norm.weight", kFinalNorm, kHidden},
    ParamRow{"lm_head.weight", kLmHead, kVocab, kHidden, When::kUntied},
};

// The heads of families that are trained as value models too.
inline constexpr std::array kScoreRows = {
    ParamRow{"score.weight", kScore, kLabels, kHidden, When::kScore},
    ParamRow{"score.bias", kScore, kLabels, kNone, When::kScoreBias},
};

// The last as NxDT's Megatron models name it.
inline constexpr const char* kIgnorable[] = {
    "model.layers.{}.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq",
    "language_model.encoder.layers.{}.self_attention.core_attention.rotary_emb.inv_freq"};

// One table of several.
template <typename... Parts>
constexpr auto JoinRows(const Parts&... parts) {
  std::array<ParamRow, (std::tuple_size_v<Parts> + ...)> all{};
  size_t at = 0;
  const auto add = [&](const auto& part) {
    for (const ParamRow& row : part) all[at++] = row;
  };
  (add(parts), ...);
  return all;
}

}  // namespace nxdkit::models
