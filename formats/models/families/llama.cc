// Llama 2, 3, 3.x, and what copies them (Mistral's dense models have their own model_type).
// Source: transformers LlamaForCausalLM state dict.
#include "formats/models/decoder_rows.h"

namespace nxdkit::models {
namespace {

constexpr auto kRows = JoinRows(kBeginRows, kMlpRows, kEndRows, kScoreRows);

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
    .optimum_trains = true,
    .titan = TitanRope::kPairs,
};

}  // namespace nxdkit::models
