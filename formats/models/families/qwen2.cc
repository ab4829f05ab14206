// Qwen2 and Qwen2.5, dense. Biases on q, k and v only.
// Source: transformers Qwen2ForCausalLM state dict.
#include "formats/models/decoder_rows.h"

namespace nxdkit::models {
namespace {

constexpr auto kRows = JoinRows(kBeginRows, kMlpRows, kEndRows, kScoreRows);

}  // namespace

extern const Family family_qwen2;
const Family family_qwen2 = {
    .model_type = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .qkv_bias = Family::Bias::kAlways,
    .output_bias = Family::Bias::kNever,
    .mlp_bias_key = false,
    .optimum_fuses_qkv = false,
    .optimum_sampling = OptimumSampling::kNotAtTwoRanks,
    .rows = kRows,
    .ignorable = kIgnorable,
};

}  // namespace nxdkit::models
