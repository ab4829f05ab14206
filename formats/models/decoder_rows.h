// PRIVATE to formats/models. The rows that decoders of Llama's kind share, in the order of their
// state dicts. Rows of biases stand in all of them: a family that never has one says so in its
// Family.
#pragma once

#include <array>
#include <tuple>

#include "formats/models/family.h"

namespace nxdkit::models {

inline constexpr std::array kBeginRows = {
    ParamRow{"model.embed_tokens.weight", Role::kEmbedding, Dim::kVocab, Dim::kHidden},
    ParamRow{"model.layers.{}.self_attn.q_proj.weight", Role::kQuery, Dim::kQueryRows,
             Dim::kHidden},
    ParamRow{"model.layers.{}.self_attn.q_proj.bias", Role::kQuery, Dim::kQueryRows, Dim::kNone,
             When::kQkvBias},
    ParamRow{"model.layers.{}.self_attn.k_proj.weight", Role::kKey, Dim::kKeyRows, Dim::kHidden},
    ParamRow{"model.layers.{}.self_attn.k_proj.bias", Role::kKey, Dim::kKeyRows, Dim::kNone,
             When::kQkvBias},
    ParamRow{"model.layers.{}.self_attn.v_proj.weight", Role::kValue, Dim::kKeyRows, Dim::kHidden},
    ParamRow{"model.layers.{}.self_attn.v_proj.bias", Role::kValue, Dim::kKeyRows, Dim::kNone,
             When::kQkvBias},
    ParamRow{"model.layers.{}.self_attn.o_proj.weight", Role::kOutput, Dim::kHidden,
             Dim::kQueryRows},
    ParamRow{"model.layers.{}.self_attn.o_proj.bias", Role::kOutput, Dim::kHidden, Dim::kNone,
             When::kOutputBias},
};

inline constexpr std::array kHeadNormRows = {
    ParamRow{"model.layers.{}.self_attn.q_norm.weight", Role::kQueryNorm, Dim::kHeadDim},
    ParamRow{"model.layers.{}.self_attn.k_norm.weight", Role::kKeyNorm, Dim::kHeadDim},
};

inline constexpr std::array kMlpRows = {
    ParamRow{"model.layers.{}.mlp.gate_proj.weight", Role::kGate, Dim::kIntermediate, Dim::kHidden},
    ParamRow{"model.layers.{}.mlp.gate_proj.bias", Role::kGate, Dim::kIntermediate, Dim::kNone,
             When::kMlpBias},
    ParamRow{"model.layers.{}.mlp.up_proj.weight", Role::kUp, Dim::kIntermediate, Dim::kHidden},
    ParamRow{"model.layers.{}.mlp.up_proj.bias", Role::kUp, Dim::kIntermediate, Dim::kNone,
             When::kMlpBias},
    ParamRow{"model.layers.{}.mlp.down_proj.weight", Role::kDown, Dim::kHidden, Dim::kIntermediate},
    ParamRow{"model.layers.{}.mlp.down_proj.bias", Role::kDown, Dim::kHidden, Dim::kNone,
             When::kMlpBias},
};

inline constexpr std::array kEndRows = {
    ParamRow{"model.layers.{}.input_layernorm.weight", Role::kReplicated, Dim::kHidden},
    ParamRow{"model.layers.{}.post_attention_layernorm.weight", Role::kReplicated, Dim::kHidden},
    ParamRow{"model.norm.weight", Role::kFinalNorm, Dim::kHidden},
    ParamRow{"lm_head.weight", Role::kLmHead, Dim::kVocab, Dim::kHidden, When::kUntied},
};

// Of those that are trained as value models too.
inline constexpr std::array kScoreRows = {
    ParamRow{"score.weight", Role::kScore, Dim::kLabels, Dim::kHidden, When::kScore},
    ParamRow{"score.bias", Role::kScore, Dim::kLabels, Dim::kNone, When::kScoreBias},
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
