// Qwen3, dense: norms on q and k per head, head_dim independent of hidden / heads, small models
// tied. Source: transformers Qwen3ForCausalLM state dict.
#include "formats/models/decoder_rows.h"

namespace nxdkit::models {
namespace {

constexpr auto kRows = JoinRows(kBeginRows, kHeadNormRows, kMlpRows, kEndRows, kScoreRows);

}  // namespace

extern const Family family_qwen3;
const Family family_qwen3 = {
    .model_type = "qwen3",
    .architecture = "Qwen3ForCausalLM",
    .qkv_bias = Family::Bias::kConfig,
    .output_bias = Family::Bias::kConfig,
    .mlp_bias_key = false,
    .head_dim = 128,
    .optimum_fuses_qkv = true,
    .optimum_sampling = OptimumSampling::kNotAtTwoRanks,
    .rows = kRows,
    .ignorable = kIgnorable,
    .optimum_trains = true,
    .titan = TitanRope::kHalves,
};

}  // namespace nxdkit::models
