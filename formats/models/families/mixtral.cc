// Mixtral: experts in every layer, no biases.
// Source: transformers MixtralForCausalLM state dict; w1 is the gate, w3 up, w2 down.
#include "formats/models/decoder_rows.h"

namespace nxdkit::models {
namespace {

constexpr std::array kExpertRows = {
    ParamRow{"model.layers.{}.block_sparse_moe.gate.weight", kRouter, kExperts, kHidden,
             When::kSparseLayer},
    ParamRow{"model.layers.{}.block_sparse_moe.experts.{e}.w1.weight", kExpertGate,
             kExpertIntermediate, kHidden, When::kSparseLayer},
    ParamRow{"model.layers.{}.block_sparse_moe.experts.{e}.w2.weight", kExpertDown, kHidden,
             kExpertIntermediate, When::kSparseLayer},
    ParamRow{"model.layers.{}.block_sparse_moe.experts.{e}.w3.weight", kExpertUp,
             kExpertIntermediate, kHidden, When::kSparseLayer},
};

constexpr auto kRows = JoinRows(kBeginRows, kExpertRows, kEndRows);

}  // namespace

extern const Family family_mixtral;
const Family family_mixtral = {
    .model_type = "mixtral",
    .architecture = "MixtralForCausalLM",
    .qkv_bias = Family::Bias::kNever,
    .output_bias = Family::Bias::kNever,
    .mlp_bias_key = false,
    .optimum_fuses_qkv = false,
    .optimum_sampling = OptimumSampling::kOnHost,
    .rows = kRows,
    .ignorable = kIgnorable,
    .nxd_fuses_qkv = true,
    .experts = {.count = "num_local_experts", .intermediate = "intermediate_size"},
    // Neither is known to load a tied one.
    .optimum = {.ranks = 0, .ties = false},
    .nxdi = {.ranks = kModelRank | kExpertRank, .ties = false},
};

}  // namespace nxdkit::models
