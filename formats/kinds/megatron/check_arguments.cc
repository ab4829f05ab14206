#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "formats/kinds/megatron/bind_megatron.h"
#include "formats/kinds/megatron/megatron_state.h"
#include "lib/base/errors.h"
#include "lib/json/json.h"
#include "lib/json/json_parse.h"

namespace nxdkit::kinds {
namespace {

struct Claim {
  const char* argument;
  std::optional<int64_t> said;
  int64_t config = 0;
};

// The number of query groups if the run has them; else each head is a group.
std::optional<int64_t> GroupsOf(const megatron::CommonState& common) {
  if (common.Flag("group_query_attention") == true) return common.Number("num_query_groups");
  return common.Flag("group_query_attention") == false ? common.Number("num_attention_heads")
                                                       : std::nullopt;
}

Error Disagrees(const Artifact& artifact, const megatron::CommonState& common,
                std::string_view argument, const std::string& said, const std::string& config) {
  return Corrupt("{} of the run is {}, but {} says {}", argument, said, artifact.config_path,
                 config)
      .in(common.file)
      .hint("name the model's own config.json with --config");
}

// Checks numbers that change no shape but do change the model, if both files have them at the top
// level.
Status CheckReals(const Artifact& artifact, const megatron::CommonState& common) {
  constexpr std::pair<const char*, const char*> kPairs[] = {
      {"norm_epsilon", "rms_norm_eps"},
      {"rotary_base", "rope_theta"},
      {"moe_router_topk", "num_experts_per_tok"}};
  const Result<Json> json = ParseJson(artifact.config_text, kLikePython);
  if (!json.ok()) return OkStatus();  // reported before
  for (const auto& [argument, key] : kPairs) {
    const std::optional<double> said = common.Real(argument);
    const Json* found = JsonFind(*json, key);
    if (!said || !found || !found->is_number()) continue;
    const double config = found->get<double>();
    if (std::abs(*said - config) <= 1e-6 * std::abs(config)) continue;
    return Disagrees(artifact, common, argument, fmt::format("{}", *said),
                     fmt::format("{} {}", key, config));
  }
  return OkStatus();
}

}  // namespace

Status CheckArguments(const Artifact& artifact) {
  const megatron::CommonState& common = MegatronStateOf(artifact)->common;
  if (!common.has_args || !artifact.config || !artifact.config->family) return OkStatus();
  const models::ModelConfig& config = *artifact.config;
  const bool latent = common.Flag("multi_latent_attention") == true;
  const Claim claims[] = {
      {"num_layers", common.Number("num_layers"), config.layers},
      {"hidden_size", common.Number("hidden_size"), config.hidden},
      {"num_attention_heads", common.Number("num_attention_heads"), config.heads},
      {"num_query_groups", latent ? std::nullopt : GroupsOf(common), config.kv_heads},
      {"kv_channels", latent ? std::nullopt : common.Number("kv_channels"), config.head_dim},
      {"num_experts", common.Number("num_experts"), config.experts},
      {"ffn_hidden_size", config.experts == 0 ? common.Number("ffn_hidden_size") : std::nullopt,
       config.intermediate},
      {"moe_ffn_hidden_size", common.Number("moe_ffn_hidden_size"), config.expert_intermediate}};
  for (const Claim& claim : claims)
    if (claim.said && *claim.said != claim.config && claim.config != 0)
      return Disagrees(artifact, common, claim.argument, std::to_string(*claim.said),
                       std::to_string(claim.config));
  // HF's vocabulary may be larger than the tokenizer's, never smaller.
  const std::optional<int64_t> vocab = common.Number("vocab_size");
  if (vocab && *vocab > config.vocab)
    return Disagrees(artifact, common, "vocab_size", std::to_string(*vocab),
                     std::to_string(config.vocab));
  NXDKIT_TRY(CheckReals(artifact, common));
  const auto untied = common.Flag("untie_embeddings_and_output_weights");
  if (untied && *untied == config.tied)
    return Disagrees(artifact, common, "untie_embeddings_and_output_weights",
                     *untied ? "true" : "false",
                     config.tied ? "that they are tied" : "that they are not");
  // Rows in another order are not supported.
  if (common.Flag("rotary_interleaved") == true)
    return Unsupported("rotary_interleaved: the rows of q and k are in another order")
        .in(common.file);
  if (common.Flag("attention_output_gate") == true)
    return Unsupported("attention_output_gate: the rows of q have those of a gate among them")
        .in(common.file);
  if (common.Number("moe_mlp_glu_interleave_size"))
    return Unsupported("moe_mlp_glu_interleave_size: the rows of gate and up are mixed")
        .in(common.file);
  return OkStatus();
}

}  // namespace nxdkit::kinds
