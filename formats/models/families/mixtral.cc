// Mixtral: experts in every layer, no biases.
// Source: transformers MixtralForCausalLM state dict; w1 is the gate, w3 up, w2 down.
#include "formats/models/family.h"

namespace nxdkit::models {
namespace {

constexpr ParamRow kRows[] = {
    {"model.embed_tokens.weight", Role::kEmbedding, Dim::kVocab, Dim::kHidden},
    {"model.layers.{}.self_attn.q_proj.weight", Role::kQuery, Dim::kQueryRows, Dim::kHidden},
    {"model.layers.{}.self_attn.k_proj.weight", Role::kKey, Dim::kKeyRows, Dim::kHidden},
    {"model.layers.{}.self_attn.v_proj.weight", Role::kValue, Dim::kKeyRows, Dim::kHidden},
    {"model.layers.{}.self_attn.o_proj.weight", Role::kOutput, Dim::kHidden, Dim::kQueryRows},
    {"model.layers.{}.block_sparse_moe.gate.weight", Role::kRouter, Dim::kExperts, Dim::kHidden,
     When::kSparseLayer},
    {"model.layers.{}.block_sparse_moe.experts.{e}.w1.weight", Role::kExpertGate,
     Dim::kExpertIntermediate, Dim::kHidden, When::kSparseLayer},
    {"model.layers.{}.block_sparse_moe.experts.{e}.w2.weight", Role::kExpertDown, Dim::kHidden,
     Dim::kExpertIntermediate, When::kSparseLayer},
    {"model.layers.{}.block_sparse_moe.experts.{e}.w3.weight", Role::kExpertUp,
     Dim::kExpertIntermediate, Dim::kHidden, When::kSparseLayer},
    {"model.layers.{}.input_layernorm.weight", Role::kReplicated, Dim::kHidden},
    {"model.layers.{}.post_attention_layernorm.weight", Role::kReplicated, Dim::kHidden},
    {"model.norm.weight", Role::kFinalNorm, Dim::kHidden},
    {"lm_head.weight", Role::kLmHead, Dim::kVocab, Dim::kHidden, When::kUntied},
};

// The last as NxDT's Megatron models name it.
constexpr const char* kIgnorable[] = {
    "model.layers.{}.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq",
    "language_model.encoder.layers.{}.self_attention.core_attention.rotary_emb.inv_freq"};

}  // namespace

extern const Family family_mixtral;
const Family family_mixtral = {
    .model_type = "mixtral",
    .architecture = "MixtralForCausalLM",
    .qkv_bias = Family::Bias::kNever,
    .output_bias = Family::Bias::kNever,
    .mlp_bias_key = false,
    .optimum_fuses_qkv = false,
    .rows = kRows,
    .ignorable = kIgnorable,
    .nxd_fuses_qkv = true,
    .experts = {.count = "num_local_experts", .intermediate = "intermediate_size"},
    // Neither is known to load a tied one.
    .optimum = {.ranks = 0, .ties = false},
    .nxdi = {.ranks = kModelRank | kExpertRank, .ties = false},
};

}  // namespace nxdkit::models
