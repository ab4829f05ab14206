// Llama 2, 3, 3.x, and what copies them (Mistral's dense models have their own model_type).
// Source: transformers LlamaForCausalLM state dict.
#include "formats/models/family.h"

namespace nxdkit::models {
namespace {

constexpr ParamRow kRows[] = {
    {"model.embed_tokens.weight", Role::kEmbedding, Dim::kVocab, Dim::kHidden},
    {"model.layers.{}.self_attn.q_proj.weight", Role::kQuery, Dim::kQueryRows, Dim::kHidden},
    {"model.layers.{}.self_attn.q_proj.bias", Role::kQuery, Dim::kQueryRows, Dim::kNone,
     When::kQkvBias},
    {"model.layers.{}.self_attn.k_proj.weight", Role::kKey, Dim::kKeyRows, Dim::kHidden},
    {"model.layers.{}.self_attn.k_proj.bias", Role::kKey, Dim::kKeyRows, Dim::kNone,
     When::kQkvBias},
    {"model.layers.{}.self_attn.v_proj.weight", Role::kValue, Dim::kKeyRows, Dim::kHidden},
    {"model.layers.{}.self_attn.v_proj.bias", Role::kValue, Dim::kKeyRows, Dim::kNone,
     When::kQkvBias},
    {"model.layers.{}.self_attn.o_proj.weight", Role::kOutput, Dim::kHidden, Dim::kQueryRows},
    {"model.layers.{}.self_attn.o_proj.bias", Role::kOutput, Dim::kHidden, Dim::kNone,
     When::kOutputBias},
    {"model.layers.{}.mlp.gate_proj.weight", Role::kGate, Dim::kIntermediate, Dim::kHidden},
    {"model.layers.{}.mlp.gate_proj.bias", Role::kGate, Dim::kIntermediate, Dim::kNone,
     When::kMlpBias},
    {"model.layers.{}.mlp.up_proj.weight", Role::kUp, Dim::kIntermediate, Dim::kHidden},
    {"model.layers.{}.mlp.up_proj.bias", Role::kUp, Dim::kIntermediate, Dim::kNone, When::kMlpBias},
    {"model.layers.{}.mlp.down_proj.weight", Role::kDown, Dim::kHidden, Dim::kIntermediate},
    {"model.layers.{}.mlp.down_proj.bias", Role::kDown, Dim::kHidden, Dim::kNone, When::kMlpBias},
    {"model.layers.{}.input_layernorm.weight", Role::kReplicated, Dim::kHidden},
    {"model.layers.{}.post_attention_layernorm.weight", Role::kReplicated, Dim::kHidden},
    {"model.norm.weight", Role::kFinalNorm, Dim::kHidden},
    {"lm_head.weight", Role::kLmHead, Dim::kVocab, Dim::kHidden, When::kUntied},
    {"score.weight", Role::kScore, Dim::kLabels, Dim::kHidden, When::kScore},
    {"score.bias", Role::kScore, Dim::kLabels, Dim::kNone, When::kScoreBias},
};

// The last as NxDT's Megatron models name it.
constexpr const char* kIgnorable[] = {
    "model.layers.{}.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq",
    "language_model.encoder.layers.{}.self_attention.core_attention.rotary_emb.inv_freq"};

}  // namespace

extern const Family family_llama;
const Family family_llama = {
    .model_type = "llama",
    .architecture = "LlamaForCausalLM",
    .qkv_bias = Family::Bias::kConfig,
    .output_bias = Family::Bias::kConfig,
    .mlp_bias_key = true,
    .optimum_fuses_qkv = true,
    .rows = kRows,
    .ignorable = kIgnorable,
};

}  // namespace nxdkit::models
