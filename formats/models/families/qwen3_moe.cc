// Qwen3-MoE: Qwen3's attention; layers with experts, and (decoder_sparse_step, mlp_only_layers)
// some without. Source: transformers Qwen3MoeForCausalLM state dict.
#include "formats/models/decoder_rows.h"

namespace nxdkit::models {
namespace {

constexpr std::array kLayerRows = {
    ParamRow{"model.layers.{}.mlp.gate.weight", kRouter, kExperts, kHidden, When::kSparseLayer},
    ParamRow{"model.layers.{}.mlp.experts.{e}.gate_proj.weight", kExpertGate, kExpertIntermediate,
             kHidden, When::kSparseLayer},
    ParamRow{"model.layers.{}.mlp.experts.{e}.up_proj.weight", kExpertUp, kExpertIntermediate,
             kHidden, When::kSparseLayer},
    ParamRow{"model.layers.{}.mlp.experts.{e}.down_proj.weight", kExpertDown, kHidden,
             kExpertIntermediate, When::kSparseLayer},
    ParamRow{"model.layers.{}.mlp.gate_proj.weight", kGate, kIntermediate, kHidden,
             When::kDenseLayer},
    ParamRow{"model.layers.{}.mlp.up_proj.weight", kUp, kIntermediate, kHidden, When::kDenseLayer},
    ParamRow{"model.layers.{}.mlp.down_proj.weight", kDown, kHidden, kIntermediate,
             When::kDenseLayer},
};

constexpr auto kRows = JoinRows(kBeginRows, kHeadNormRows, kLayerRows, kEndRows);

}  // namespace

extern const Family family_qwen3_moe;
const Family family_qwen3_moe = {
    .model_type = "qwen3_moe",
    .architecture = "Qwen3MoeForCausalLM",
    .qkv_bias = Family::Bias::kConfig,
    .output_bias = Family::Bias::kConfig,
    .mlp_bias_key = false,
    .optimum_fuses_qkv = false,
    .rows = kRows,
    .ignorable = kIgnorable,
    .titan = TitanRope::kHalves,
    .experts = {.count = "num_experts",
                .intermediate = "moe_intermediate_size",
                .dense_layers = true},
    .optimum = {.ranks = kModelRank},
    .nxdi = {.ranks = kModelRank | kAttentionRank | kExpertRank,
             .ties = false,
             .dense_layers = false},
};

}  // namespace nxdkit::models
