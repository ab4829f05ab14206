#include "formats/rollout/neuron_config.h"

#include <fmt/core.h>

#include <limits>

#include "lib/base/errors.h"
#include "lib/json/json_reader.h"

namespace nxdkit::rollout {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 31;

// Settings that change the tensors, or the numbers, in the shards (FORMAT.md) and have no field of
// their own in NeuronConfig.
constexpr const char* kDegrees[] = {"pp_degree",     "ep_degree",           "cp_degree",
                                    "mlp_cp_degree", "attention_dp_degree", "moe_ep_degree"};
constexpr const char* kFlags[] = {"quantized", "quantized_mlp_kernel_enabled",
                                  "fused_rmsnorm_skip_gamma", "enable_fused_speculation",
                                  "enable_eagle_speculation", "is_eagle_draft", "is_medusa",
                                  "is_mxfp4_compute", "is_full_model_shuffled",
                                  // Kernels'.
                                  "moe_fused_nki_kernel_enabled", "expert_mlp_nki_kernel_enabled",
                                  "transpose_shared_experts_weights"};
constexpr const char* kObjects[] = {"padded_hidden_size", "padded_intermediate_size",
                                    "activation_quantization_type", "lora_config",
                                    "hybrid_sharding_config"};

void CollectUnsupported(JsonReader& reader, std::vector<std::string>& out) {
  for (const char* key : kDegrees)
    if (const int64_t degree = reader.Int(key, 1, 1, kMaxRanks); degree > 1)
      out.push_back(fmt::format("{}: {}", key, degree));
  for (const char* key : kFlags)
    if (reader.Flag(key)) out.push_back(fmt::format("{}: true", key));
  for (const char* key : kObjects)
    if (reader.Find(key)) out.push_back(fmt::format("{} is set", key));
  if (const std::string cast = reader.Text("cast_type", "config"); cast != "config")
    out.push_back(fmt::format("cast_type: {}", cast));
  if (!reader.Flag("glu_mlp", true)) out.push_back("glu_mlp: false");
}

// Reads settings of expert layers: whether they hold their rank, and a kernel that pads their
// columns.
Status ReadBlockwise(const Json& json, const std::string& path, NeuronConfig& config) {
  constexpr const char* kKey = "blockwise_matmul_config";
  const Json* blockwise = JsonFind(json, kKey);
  if (!blockwise) return OkStatus();
  const std::string name = fmt::format("neuron_config.{}", kKey);
  if (!blockwise->is_object())
    return Corrupt("found {}, expected an object", JsonExcerpt(*blockwise)).in(path).member(name);
  JsonReader reader(*blockwise, path, name + ".");
  config.expert_ranks = reader.Flag("parallelize_token_to_block_mapping", true);
  if (reader.Flag("use_shard_on_intermediate_dynamic_while"))
    config.unsupported.push_back("use_shard_on_intermediate_dynamic_while: true");
  return reader.status();
}

// The ranks of this bundle are among those of tp_degree, unless other axes multiply them.
void CheckRanks(JsonReader& reader, const NeuronConfig& config) {
  if (!config.unsupported.empty() || config.start_rank + config.local_ranks <= config.tp) return;
  reader.Fail("local_ranks_size",
              fmt::format("{} ranks from start_rank_id {} on are more than tp_degree {}",
                          config.local_ranks, config.start_rank, config.tp));
}

NeuronConfig ReadCommon(JsonReader& reader) {
  NeuronConfig config;
  config.tp = static_cast<int>(reader.Int("tp_degree", 1, 1, kMaxRanks));
  config.start_rank = reader.Int("start_rank_id", 0, 0, kMaxRanks);
  config.local_ranks = reader.Int("local_ranks_size", config.tp, 1, kMaxRanks);
  config.batch_size = reader.Int("batch_size", 1, 1, kMaxTokens);
  config.torch_dtype = reader.Text("torch_dtype", "bfloat16");
  config.fused_qkv = reader.Flag("fused_qkv");
  CollectUnsupported(reader, config.unsupported);
  CheckRanks(reader, config);
  return config;
}

bool AnyFlag(JsonReader& reader, std::initializer_list<const char*> keys) {
  bool any = false;
  // All are read, because each may be malformed.
  for (const char* key : keys) any |= reader.Flag(key);
  return any;
}

constexpr const char* kMadeFor[] = {"target", "logical_nc_config", "checkpoint_revision"};

// Other versions of the programs may have other keys, but they have these endings.
void CollectVersions(const Json& json, std::vector<std::pair<std::string, std::string>>& out) {
  const auto add = [&](const std::string& key, const Json& value) {
    if (value.is_string()) out.push_back({key, value.get<std::string>()});
    if (value.is_number_integer()) out.push_back({key, value.dump()});
  };
  for (const auto& [key, value] : json.items())
    if (key.ends_with("version")) add(key, value);
  for (const char* key : kMadeFor)
    if (const Json* value = JsonFind(json, key)) add(key, *value);
}

// The kernels that want a stored matrix transposed; NxDI still accepts their older names.
Result<NeuronConfig> ReadNxdi(const Json& top, const Json& json, const std::string& path) {
  JsonReader reader(json, path, "neuron_config.");
  NeuronConfig config = ReadCommon(reader);
  config.flavor = Flavor::kNxdi;
  config.sequence_length = reader.Int("seq_len", 128, 1, kMaxTokens);
  config.sharded_checkpoint = reader.Flag("save_sharded_checkpoint");
  config.vocab_parallel = reader.Flag("vocab_parallel");
  config.on_device_sampling = reader.Find("on_device_sampling_config") != nullptr;
  const bool all_kernels = reader.Flag("attn_block_cte_nki_kernel_enabled");
  const bool qkv = AnyFlag(reader, {"qkv_kernel_enabled", "qkv_nki_kernel_enabled"});
  config.transposed_qkv = config.fused_qkv && (qkv || all_kernels);
  config.transposed_output =
      all_kernels ||
      AnyFlag(reader, {"out_proj_kernel_enabled", "attn_block_tkg_nki_kernel_enabled",
                       "attn_tkg_nki_kernel_enabled", "attn_tkg_builtin_kernel_enabled"});
  config.transposed_mlp = AnyFlag(reader, {"mlp_kernel_enabled", "mlp_tkg_nki_kernel_enabled"});
  NXDKIT_TRY(reader.status());
  NXDKIT_TRY(ReadBlockwise(json, path, config));
  const int64_t expert_tp = reader.Int("moe_tp_degree", 1, 1, kMaxRanks);
  if (expert_tp > 1 && expert_tp != config.tp)
    config.unsupported.push_back(fmt::format("moe_tp_degree: {}", expert_tp));
  NXDKIT_TRY(reader.status());
  // In this case every name begins with draft_model. or target_model.
  if (JsonFind(top, "fused_spec_config")) config.unsupported.push_back("fused_spec_config is set");
  // Derived settings of models with experts, which pad or double their weights.
  JsonReader derived(top, path);
  if (const int64_t pad = derived.Int("moe_intermediate_pad_size", 0, 0, kMaxTokens); pad > 0)
    config.unsupported.push_back(fmt::format("moe_intermediate_pad_size: {}", pad));
  if (derived.Flag("moe_fused_nki_kernel_enabled"))
    config.unsupported.push_back("moe_fused_nki_kernel_enabled: true");
  NXDKIT_TRY(derived.status());
  CollectVersions(top, config.versions);
  CollectVersions(json, config.versions);
  return config;
}

constexpr char kOptimumClass[] = "NxDNeuronConfig";

Result<NeuronConfig> ReadOptimum(const Json& json, const std::string& path) {
  JsonReader reader(json, path);
  NeuronConfig config = ReadCommon(reader);
  config.flavor = Flavor::kOptimum;
  config.sequence_length = reader.Int("sequence_length", 128, 1, kMaxTokens);
  config.checkpoint_id = reader.Text("checkpoint_id");
  config.on_device_sampling = reader.Flag("on_device_sampling");
  config.stamp = {reader.Text("optimum_neuron_version"), reader.Text("neuronxcc_version")};
  if (const std::string key = reader.Text("_serialized_key"); key != kOptimumClass)
    config.unsupported.push_back(fmt::format("_serialized_key: {}", key));
  NXDKIT_TRY(reader.status());
  CollectVersions(json, config.versions);
  return config;
}

// Settings without a key in optimum-neuron's dialect.
Status CheckOptimum(const NeuronConfig& config) {
  const auto refuse = [](const char* what) {
    return Unsupported("optimum-neuron knows no {}", what).hint("use --flavor nxdi");
  };
  if (config.vocab_parallel) return refuse("embedding split over the vocabulary (vocab_parallel)");
  if (config.transposed_qkv || config.transposed_output || config.transposed_mlp)
    return refuse("transposed weights (the kernel flags of NxDI)");
  return OkStatus();
}

Json OptimumJson(const NeuronConfig& config) {
  Json json = Json::object();
  json["_serialized_key"] = kOptimumClass;
  json["batch_size"] = config.batch_size;
  json["capacity_factor"] = nullptr;
  json["checkpoint_id"] = config.checkpoint_id.empty() ? Json(nullptr) : Json(config.checkpoint_id);
  json["checkpoint_revision"] = nullptr;
  json["continuous_batching"] = config.batch_size > 1;
  json["ep_degree"] = 1;
  json["fused_qkv"] = config.fused_qkv;
  json["glu_mlp"] = true;
  json["local_ranks_size"] = config.local_ranks;
  json["max_batch_size"] = config.batch_size;
  json["max_context_length"] = config.sequence_length;
  json["max_topk"] = 256;
  json["n_active_tokens"] = config.sequence_length;
  if (!config.stamp.compiler.empty()) json["neuronxcc_version"] = config.stamp.compiler;
  json["on_device_sampling"] = config.on_device_sampling;
  if (!config.stamp.optimum.empty()) json["optimum_neuron_version"] = config.stamp.optimum;
  json["output_logits"] = false;
  json["pp_degree"] = 1;
  json["prefill_chunk_size"] = config.sequence_length > 1024 ? 1024 : 0;
  json["sequence_length"] = config.sequence_length;
  json["speculation_length"] = 0;
  json["start_rank_id"] = config.start_rank;
  json["target"] = nullptr;
  json["torch_dtype"] = config.torch_dtype;
  json["tp_degree"] = config.tp;
  return json;
}

// NxDI has defaults for absent keys; these are the ones that describe shapes and shards.
Json NxdiJson(const NeuronConfig& config, Json top) {
  top.erase("torch_dtype");
  top.erase("dtype");
  for (const char* key : {"fused_spec_config", "metadata"}) top[key] = nullptr;
  if (!top.contains("_name_or_path")) top["_name_or_path"] = "";
  top["num_cores_per_group"] = 1;
  Json inner = Json::object();
  for (const char* key : {"batch_size", "ctx_batch_size", "tkg_batch_size", "max_batch_size"})
    inner[key] = config.batch_size;
  for (const char* key :
       {"seq_len", "n_active_tokens", "n_positions", "max_context_length", "max_length"})
    inner[key] = config.sequence_length;
  inner["ctx_batch_size"] = 1;
  inner["is_continuous_batching"] = config.batch_size > 1;
  inner["padding_side"] = "right";
  inner["torch_dtype"] = config.torch_dtype;
  inner["cast_type"] = "config";
  for (const char* key : {"tp_degree", "world_size"}) inner[key] = config.tp;
  for (const char* key : {"cp_degree", "pp_degree", "ep_degree", "attention_dp_degree"})
    inner[key] = 1;
  inner["start_rank_id"] = config.start_rank;
  inner["local_ranks_size"] = config.local_ranks;
  inner["save_sharded_checkpoint"] = true;
  inner["fused_qkv"] = config.fused_qkv;
  inner["vocab_parallel"] = config.vocab_parallel;
  inner["qkv_kernel_enabled"] = config.transposed_qkv;
  inner["out_proj_kernel_enabled"] = config.transposed_output;
  inner["mlp_kernel_enabled"] = config.transposed_mlp;
  if (config.on_device_sampling) inner["on_device_sampling_config"] = Json::object();
  inner["quantized"] = false;
  inner["quantize_clamp_bound"] = std::numeric_limits<double>::infinity();
  top["neuron_config"] = std::move(inner);
  return top;
}

}  // namespace

Result<NeuronConfig> ParseNeuronConfig(std::string_view json_text, const std::string& path) {
  NXDKIT_ASSIGN(const Json json, ParseJson(json_text, kLikePython).in(path));
  const Json* nested = JsonFind(json, "neuron_config");
  if (nested && nested->is_object()) return ReadNxdi(json, *nested, path);
  if (JsonFind(json, "_serialized_key")) return ReadOptimum(json, path);
  return Corrupt(
             "neither an object \"neuron_config\" (NxDI) nor \"_serialized_key\" (optimum-neuron) "
             "is there: an unknown dialect")
      .in(path);
}

Result<std::string> WriteNeuronConfig(const NeuronConfig& config, std::string_view hf_config_text) {
  if (config.flavor == Flavor::kOptimum) {
    NXDKIT_TRY(CheckOptimum(config));
    return DumpPython(OptimumJson(config)) + "\n";
  }
  Json top = Json::object();
  if (!hf_config_text.empty()) {
    NXDKIT_ASSIGN(top, ParseJson(hf_config_text, kLikePython));
    if (!top.is_object()) return Corrupt("config.json is not an object");
  }
  return DumpPython(NxdiJson(config, std::move(top))) + "\n";
}

}  // namespace nxdkit::rollout
