// GPT-NeoX and Pythia, for training sets: q, k and v in one matrix, head by head; biases
// everywhere. Source: transformers GPTNeoXForCausalLM state dict.
#include "formats/models/family.h"

namespace nxdkit::models {
namespace {

using enum Role;
using enum Dim;

constexpr ParamRow kRows[] = {
    {"gpt_neox.embed_in.weight", kEmbedding, kVocab, kHidden},
    {"gpt_neox.layers.{}.input_layernorm.weight", kReplicated, kHidden},
    {"gpt_neox.layers.{}.input_layernorm.bias", kReplicated, kHidden},
    {"gpt_neox.layers.{}.post_attention_layernorm.weight", kReplicated, kHidden},
    {"gpt_neox.layers.{}.post_attention_layernorm.bias", kReplicated, kHidden},
    {"gpt_neox.layers.{}.attention.query_key_value.weight", kHeadColumn, kFusedHeadRows, kHidden},
    {"gpt_neox.layers.{}.attention.query_key_value.bias", kHeadColumn, kFusedHeadRows, kNone,
     When::kQkvBias},
    {"gpt_neox.layers.{}.attention.dense.weight", kRow, kHidden, kQueryRows},
    {"gpt_neox.layers.{}.attention.dense.bias", kRow, kHidden, kNone, When::kOutputBias},
    {"gpt_neox.layers.{}.mlp.dense_h_to_4h.weight", kColumn, kIntermediate, kHidden},
    {"gpt_neox.layers.{}.mlp.dense_h_to_4h.bias", kColumn, kIntermediate},
    {"gpt_neox.layers.{}.mlp.dense_4h_to_h.weight", kRow, kHidden, kIntermediate},
    {"gpt_neox.layers.{}.mlp.dense_4h_to_h.bias", kRow, kHidden},
    {"gpt_neox.final_layer_norm.weight", kFinalNorm, kHidden},
    {"gpt_neox.final_layer_norm.bias", kFinalNorm, kHidden},
    {"embed_out.weight", kLmHead, kVocab, kHidden, When::kUntied},
};

// The causal mask, which old versions stored, and its fill value.
constexpr const char* kIgnorable[] = {
    "gpt_neox.layers.{}.attention.bias", "gpt_neox.layers.{}.attention.masked_bias",
    "gpt_neox.layers.{}.attention.rotary_emb.inv_freq", "gpt_neox.rotary_emb.inv_freq"};

constexpr Alias kAliases[] = {{"embed_out.weight", "gpt_neox.embed_in.weight"}};

}  // namespace

extern const Family family_gpt_neox;
const Family family_gpt_neox = {
    .model_type = "gpt_neox",
    .architecture = "GPTNeoXForCausalLM",
    .qkv_bias = Family::Bias::kUnlessConfig,
    .output_bias = Family::Bias::kUnlessConfig,
    .mlp_bias_key = false,
    .optimum_fuses_qkv = false,
    .rows = kRows,
    .ignorable = kIgnorable,
    .aliases = kAliases,
    .by_architecture = true,
    .nxd_stores_aliases = true,
    .optimizer_known = false,
    .has_bundles = false,
    .vllm_known = false,
};

}  // namespace nxdkit::models
