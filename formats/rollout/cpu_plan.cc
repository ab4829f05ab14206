#include "formats/rollout/cpu_plan.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>

#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/hash/digest.h"
#include "lib/json/json_reader.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::rollout {
namespace {

constexpr char kSchema[] = "nxdkit-cpu-plan";
constexpr int64_t kVersion = 1;
constexpr int64_t kLeastBucket = 128;
constexpr int64_t kMaxExtent = int64_t{1} << 31;
constexpr size_t kMaxBuckets = 64;

std::string Digest(std::string_view text) {
  return "sha256:" + Sha256Hex(std::as_bytes(std::span(text.data(), text.size())));
}

// [batch, key/value slots of the rank, sequence, head size]; keys, then values, layer by layer.
Shape CacheShape(const CpuPlan& plan) {
  return {plan.batch_size, plan.kv_slots, plan.sequence_length, plan.head_dim};
}

std::optional<uint64_t> CacheBytes(const CpuPlan& plan) {
  const std::optional<Dtype> dtype = DtypeFromTorchName(plan.dtype);
  if (!dtype) return std::nullopt;
  std::optional<int64_t> bytes = int64_t{2};
  for (const int64_t factor : CacheShape(plan))
    if (bytes) bytes = CheckedMul<int64_t>(*bytes, factor);
  for (const int64_t factor : {plan.layers, int64_t{ElementBytes(*dtype)}})
    if (bytes) bytes = CheckedMul<int64_t>(*bytes, factor);
  if (!bytes) return std::nullopt;
  return CheckedCast<uint64_t>(*bytes);
}

// Reads ascending numbers of tokens that end with `most`.
std::vector<int64_t> ReadBuckets(JsonReader& reader, const char* key, int64_t most) {
  const Json* buckets = reader.Find("buckets");
  const Json* list = buckets ? JsonFind(*buckets, key) : nullptr;
  std::vector<int64_t> out;
  if (list && list->is_array() && !list->empty() && list->size() <= kMaxBuckets)
    for (const Json& item : *list) {
      const int64_t least = out.empty() ? 1 : out.back() + 1;
      if (!item.is_number_integer() || item < least || item > most) break;
      out.push_back(item.get<int64_t>());
    }
  if (!list || out.size() != list->size() || out.empty() || out.back() != most)
    reader.Fail(key, fmt::format("found {}, expected 1 to {} ascending numbers that end with {}",
                                 list ? JsonExcerpt(*list) : "nothing", kMaxBuckets, most));
  return out;
}

std::optional<models::GqaStrategy> StrategyFromName(std::string_view name) {
  for (const models::GqaStrategy strategy :
       {models::GqaStrategy::kReplicateToTpDegree, models::GqaStrategy::kConvertToMha})
    if (models::GqaStrategyName(strategy) == name) return strategy;
  return std::nullopt;
}

Status CheckSchema(const Json& json) {
  NXDKIT_ASSIGN(const std::string schema, JsonString(json, "schema"));
  if (schema != kSchema)
    return Corrupt("found \"{}\", expected \"{}\"", schema, kSchema).member("schema");
  NXDKIT_ASSIGN(const int64_t version, JsonInt(json, "version"));
  if (version == kVersion) return OkStatus();
  return Unsupported("version {} found, this program knows {}", version, kVersion)
      .member("version");
}

// "kv_cache" follows from other fields; if it contradicts them, the file is damaged.
void CheckCache(JsonReader& reader, CpuPlan& plan) {
  const Json* cache = reader.Find("kv_cache");
  const Json* shape = cache ? JsonFind(*cache, "shape") : nullptr;
  const Json expected = CacheShape(plan);
  if (!shape || *shape != expected)
    return reader.Fail("kv_cache.shape",
                       fmt::format("found {}, expected {}", shape ? JsonExcerpt(*shape) : "nothing",
                                   JsonExcerpt(expected)));
  const std::optional<uint64_t> bytes = CacheBytes(plan);
  const Json* found = JsonFind(*cache, "bytes_per_rank");
  if (!bytes || !found || *found != *bytes)
    return reader.Fail("kv_cache.bytes_per_rank",
                       fmt::format("found {}, expected {}", found ? JsonExcerpt(*found) : "nothing",
                                   bytes ? fmt::format("{}", *bytes) : "fewer than 2^63"));
  plan.kv_cache_bytes = *bytes;
}

}  // namespace

std::vector<int64_t> MakeBuckets(int64_t least, int64_t most) {
  if (most <= least) return {most};
  std::vector<int64_t> buckets;
  const int first = static_cast<int>(std::bit_width(static_cast<uint64_t>(least))) - 1;
  const auto end = static_cast<int>(std::nearbyint(std::log2(static_cast<double>(most))));
  for (int i = first; i < end; ++i) buckets.push_back(int64_t{1} << i);
  buckets.push_back(most);
  return buckets;
}

Result<CpuPlan> MakeCpuPlan(const models::ModelConfig& model, std::string_view config_text,
                            const NeuronConfig& neuron, std::string_view neuron_text) {
  const models::RolloutHeads heads =
      models::RolloutPlacement(model.heads, model.kv_heads, neuron.tp);
  CpuPlan plan;
  plan.model_type = model.model_type;
  plan.config_digest = Digest(config_text);
  plan.neuron_config_digest = Digest(neuron_text);
  plan.tp = neuron.tp;
  plan.batch_size = neuron.batch_size;
  plan.sequence_length = neuron.sequence_length;
  plan.dtype = neuron.torch_dtype;
  plan.fused_qkv = neuron.fused_qkv;
  plan.gqa = heads.strategy;
  plan.layers = model.layers;
  plan.head_dim = model.head_dim;
  plan.query_slots = heads.padded_query / neuron.tp;
  plan.kv_slots = heads.padded_kv / neuron.tp;
  plan.prompt_buckets = MakeBuckets(kLeastBucket, plan.sequence_length);
  plan.generation_buckets = plan.prompt_buckets;
  if (!DtypeFromTorchName(plan.dtype))
    return Unsupported("torch_dtype \"{}\" is unknown", plan.dtype);
  const std::optional<uint64_t> bytes = CacheBytes(plan);
  if (!bytes)
    return OverLimit("a KV cache of {} {} for {} layers has more than 2^63 bytes", plan.dtype,
                     ShapeText(CacheShape(plan)), plan.layers)
        .hint("take a smaller --bs or --seq");
  plan.kv_cache_bytes = *bytes;
  return plan;
}

std::string WriteCpuPlan(const CpuPlan& plan) {
  const Json cache = {{"bytes_per_rank", plan.kv_cache_bytes},
                      {"dtype", plan.dtype},
                      {"order", "key, then value, layer by layer"},
                      {"shape", CacheShape(plan)},
                      {"shape_of", Json::array({"batch", "kv_slots", "sequence", "head_dim"})},
                      {"tensors", 2 * plan.layers}};
  const Json json = {
      {"batch_size", plan.batch_size},
      {"buckets", {{"generation", plan.generation_buckets}, {"prompt", plan.prompt_buckets}}},
      {"config_digest", plan.config_digest},
      {"context_batch_size", plan.context_batch_size},
      {"dtype", plan.dtype},
      {"fused_qkv", plan.fused_qkv},
      {"gqa_strategy", models::GqaStrategyName(plan.gqa)},
      {"head_dim", plan.head_dim},
      {"kv_cache", cache},
      {"kv_slots", plan.kv_slots},
      {"layers", plan.layers},
      {"model_type", plan.model_type},
      {"neuron_config_digest", plan.neuron_config_digest},
      {"query_slots", plan.query_slots},
      {"schema", kSchema},
      {"sequence_length", plan.sequence_length},
      {"target", "cpu"},
      {"tp", plan.tp},
      {"version", kVersion}};
  return DumpPython(json) + "\n";
}

Result<CpuPlan> ParseCpuPlan(std::string_view json_text, const std::string& path) {
  NXDKIT_ASSIGN(const Json json, ParseJson(json_text).in(path));
  NXDKIT_TRY(CheckSchema(json).in(path));
  JsonReader reader(json, path);
  CpuPlan plan;
  plan.model_type = reader.Text("model_type", std::nullopt);
  plan.config_digest = reader.Text("config_digest", std::nullopt);
  plan.neuron_config_digest = reader.Text("neuron_config_digest", std::nullopt);
  plan.tp = reader.Int("tp", std::nullopt, 1, kMaxRanks);
  plan.batch_size = reader.Int("batch_size", std::nullopt, 1, kMaxExtent);
  plan.context_batch_size = reader.Int("context_batch_size", std::nullopt, 1, plan.batch_size);
  plan.sequence_length = reader.Int("sequence_length", std::nullopt, 1, kMaxExtent);
  plan.dtype = reader.Text("dtype", std::nullopt);
  plan.fused_qkv = reader.Flag("fused_qkv", std::nullopt);
  plan.layers = reader.Int("layers", std::nullopt, 1, kMaxExtent);
  plan.head_dim = reader.Int("head_dim", std::nullopt, 1, kMaxExtent);
  plan.query_slots = reader.Int("query_slots", std::nullopt, 1, kMaxExtent);
  plan.kv_slots = reader.Int("kv_slots", std::nullopt, 1, kMaxExtent);
  plan.prompt_buckets = ReadBuckets(reader, "prompt", plan.sequence_length);
  plan.generation_buckets = ReadBuckets(reader, "generation", plan.sequence_length);
  const std::string strategy = reader.Text("gqa_strategy", std::nullopt);
  if (const auto known = StrategyFromName(strategy))
    plan.gqa = *known;
  else
    reader.Fail("gqa_strategy",
                fmt::format("found \"{}\", a strategy that does not exist", strategy));
  if (!DtypeFromTorchName(plan.dtype))
    reader.Fail("dtype",
                fmt::format("found \"{}\", an element type that does not exist", plan.dtype));
  CheckCache(reader, plan);
  NXDKIT_TRY(reader.status());
  return plan;
}

}  // namespace nxdkit::rollout
