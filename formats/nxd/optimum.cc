#include "formats/nxd/optimum.h"

#include <fmt/core.h>

#include "lib/base/errors.h"
#include "lib/json/json.h"

namespace nxdkit::nxd {
namespace {

// Its attention uses the layer that stores key heads several times if and only if a rank cannot
// have whole heads of its own.
bool NeedsGqaLayer(const models::ModelConfig& config, const Geometry& geometry) {
  return config.kv_heads < geometry.tp || config.kv_heads % geometry.tp != 0;
}

// How the layer that holds a parameter cuts it; a name is matched by its end. Other tensors are
// whole on every rank, and so, although it is cut, is weight_qkv according to the record: NxD's
// layer loses the attributes of that parameter when it fuses it.
struct Cut {
  std::string_view name;
  int dim;
  int stride;
};
constexpr Cut kCuts[] = {
    {"embed_tokens.weight", 0, 1}, {"lm_head.weight", 0, 1},       {".q_proj.weight", 0, 1},
    {".k_proj.weight", 0, 1},      {".v_proj.weight", 0, 1},       {".qkv_proj.weight_q", 0, 1},
    {".qkv_proj.weight_k", 0, 1},  {".qkv_proj.weight_v", 0, 1},   {".qkv_proj.weight", 0, 3},
    {".o_proj.weight", 1, 1},      {".gate_up_proj.weight", 0, 2}, {".down_proj.weight", 1, 1},
};

Json ParameterJson(const std::string& name, int tp) {
  for (const Cut& cut : kCuts)
    if (name.ends_with(cut.name))
      return {{"tensor_model_parallel", true},
              {"partition_dim", cut.dim},
              {"partition_stride", cut.stride},
              {"num_partitions", tp}};
  return {{"tensor_model_parallel", false}};
}

Json SpecJson(const char* name, Json fields) {
  fields["peft_type"] = nullptr;
  return Json::array({name, std::move(fields)});
}

// For a layer whose rows are those of several projections, one after another.
Json FusedSpec(const char* fused, const std::vector<const char*>& parts, int64_t rows, int tp) {
  return SpecJson("FusedLinearsSpec", {{"fused_linear_name", fused},
                                       {"linear_names", parts},
                                       {"bias", false},
                                       {"fuse_axis", 0},
                                       {"original_dims", std::vector<int64_t>(parts.size(), rows)},
                                       {"tp_size", tp}});
}

Json GqaSpec(const models::ModelConfig& config, const Geometry& geometry) {
  const int64_t tp = geometry.tp;
  const int64_t q_rows = config.heads * config.head_dim;
  const int64_t kv_rows = config.kv_heads * config.head_dim * geometry.kv_multiplier;
  return SpecJson("GQAQKVColumnParallelLinearSpec", {{"gqa_qkv_projection_name", "qkv_proj"},
                                                     {"query_projection_name", "q_proj"},
                                                     {"key_projection_name", "k_proj"},
                                                     {"value_projection_name", "v_proj"},
                                                     {"output_projection_name", "o_proj"},
                                                     {"num_attention_heads", config.heads},
                                                     {"num_key_value_heads", config.kv_heads},
                                                     {"kv_size_multiplier", geometry.kv_multiplier},
                                                     {"q_output_size_per_partition", q_rows / tp},
                                                     {"kv_output_size_per_partition", kv_rows / tp},
                                                     {"fuse_qkv", geometry.qkv == QkvStyle::kFused},
                                                     {"bias", false},
                                                     {"tp_size", tp}});
}

Json AttentionSpecs(const models::ModelConfig& config, const Geometry& geometry) {
  if (NeedsGqaLayer(config, geometry)) return Json::array({GqaSpec(config, geometry)});
  if (geometry.qkv == QkvStyle::kCoalesced)
    return Json::array({FusedSpec("qkv_proj", {"q_proj", "k_proj", "v_proj"},
                                  config.heads * config.head_dim, geometry.tp)});
  return Json::array();
}

template <typename... T>
Error NoModule(fmt::format_string<T...> text, T&&... args) {
  return Unsupported(text, std::forward<T>(args)...)
      .hint("--style hf writes a set without optimum-neuron's metadata");
}

}  // namespace

QkvStyle OptimumQkv(const models::ModelConfig& config, const Geometry& geometry, bool fuse_qkv) {
  if (NeedsGqaLayer(config, geometry)) return fuse_qkv ? QkvStyle::kFused : QkvStyle::kLinear;
  return fuse_qkv && config.heads == config.kv_heads ? QkvStyle::kCoalesced : QkvStyle::kSeparate;
}

Status CheckOptimum(const models::ModelConfig& config, const Geometry& geometry) {
  if (!config.family->training.optimum)
    return NoModule("optimum-neuron's trainer has no module for {} models", config.model_type);
  if (config.labels > 0)
    return NoModule("optimum-neuron's trainer has no module with a score head");
  if (config.qkv_bias || config.output_bias || config.mlp_bias)
    return NoModule("optimum-neuron's modules have no biases, this model has some");
  if (config.hidden % config.heads != 0)
    return NoModule(
        "optimum-neuron's attention wants a hidden size that {} heads divide, this one is {}",
        config.heads, config.hidden);
  if (geometry.kv_multiplier > 1 && geometry.hardware != models::Hardware::kTrn1)
    return BadUsage(
        "optimum-neuron stores repeated key heads as for trn1, on all hardware: --hw trn2 names no "
        "layout of its own");
  if (geometry.tp % geometry.kv_multiplier != 0)
    return NoModule("NxD's layer wants a kv multiplier that divides tp {}, this one is {}",
                    geometry.tp, geometry.kv_multiplier);
  const QkvStyle own = OptimumQkv(config, geometry, Fuses(geometry.qkv));
  if (geometry.qkv != own)
    return NoModule("optimum-neuron stores {} key heads on tp {} in the {} style, not {}",
                    config.kv_heads, geometry.tp, QkvStyleName(own), QkvStyleName(geometry.qkv));
  return OkStatus();
}

std::string MpMetadataName(int pp_rank) {
  return fmt::format("mp_metadata_pp_rank_{}.json", pp_rank);
}

std::string WriteMpMetadata(const models::ModelConfig& config, const Geometry& geometry,
                            int pp_rank, std::span<const RankTensor> tensors) {
  Json parameters = Json::object();
  for (const RankTensor& tensor : tensors)
    // The second name of a tied pair is not a parameter.
    if (!config.tied || tensor.layout.name != "lm_head.weight")
      parameters[tensor.layout.name] = ParameterJson(tensor.layout.name, geometry.tp);
  // The modules of all layers are listed; those of other pipeline ranks have no fields.
  Json modules = Json::array();
  const auto add = [&](int64_t layer, const char* module, Json specs, bool here) {
    modules.push_back(
        {{"module_fully_qualified_name", fmt::format("model.layers.{}.{}", layer, module)},
         {"specs", here ? std::move(specs) : Json::array()}});
  };
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const Result<int> rank = PipelineRank(layer, config.layers, geometry.pp, geometry.vpp);
    const bool here = rank.ok() && *rank == pp_rank;
    add(layer, "self_attn", AttentionSpecs(config, geometry), here);
    add(layer, "mlp",
        Json::array({FusedSpec("gate_up_proj", {"gate_proj", "up_proj"}, config.intermediate,
                               geometry.tp)}),
        here);
  }
  return Json{{"parameters", std::move(parameters)},
              {"model_weight_transformation_specs", std::move(modules)}}
      .dump(4);
}

std::string WriteTrnConfig(const Geometry& geometry, bool xser, const std::string& source_text) {
  Json config = {{"tensor_parallel_size", 1},
                 {"sequence_parallel_enabled", false},
                 {"kv_size_multiplier", nullptr},
                 {"pipeline_parallel_size", 1},
                 {"virtual_pipeline_parallel_size", 1},
                 {"pipeline_parallel_num_microbatches", 1},
                 {"pipeline_parallel_use_zero1_optimizer", false},
                 {"gradient_checkpointing", false},
                 {"checkpoint_dir", nullptr},
                 {"num_local_ranks_per_step", 8},
                 {"use_xser", true},
                 {"async_save", false},
                 {"fuse_qkv", false},
                 {"recompute_causal_mask", true},
                 {"transpose_nki_inputs", true}};
  if (const Result<Json> source = ParseJson(source_text); source.ok() && source->is_object())
    for (const auto& [key, value] : source->items()) config[key] = value;
  config["tensor_parallel_size"] = geometry.tp;
  config["pipeline_parallel_size"] = geometry.pp;
  config["virtual_pipeline_parallel_size"] = geometry.vpp;
  // null: derived from tp and the key heads.
  config["kv_size_multiplier"] =
      geometry.kv_multiplier > 1 ? Json(geometry.kv_multiplier) : Json(nullptr);
  config["fuse_qkv"] = Fuses(geometry.qkv);
  config["use_xser"] = xser;
  return config.dump(4, ' ', true, Json::error_handler_t::replace);
}

}  // namespace nxdkit::nxd
