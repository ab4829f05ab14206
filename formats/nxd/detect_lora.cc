#include "formats/nxd/detect_lora.h"

#include "formats/nxd/detect_steps.h"
#include "formats/nxd/lora_layout.h"
#include "lib/base/errors.h"

namespace nxdkit::nxd {
namespace {

// Requires an adapter alone: base layers with it, wrapped or not, would be lost.
Status RefuseBaseWeights(const ShardSet& set) {
  for (const Shard& shard : set.shards)
    for (const StoredTensor& tensor : shard.tensors.tensors)
      if (tensor.name.find(".lora_") == std::string::npos)
        return Unsupported(
                   "not a tensor of an adapter: base weights, biases or modules_to_save next to an "
                   "adapter are not read")
            .in(shard.file.path)
            .on(tensor.name)
            .rank(shard.file.tp)
            .hint("save the adapter alone, or merged (NxD: save_lora_base, merge_lora)");
  return OkStatus();
}

// The form of q, k and v according to the names; nullopt when none of them is adapted.
struct LoraStyle {
  QkvStyle qkv = QkvStyle::kSeparate;
  const StoredTensor* rows = nullptr;  // proves the kv multiplier
};

std::optional<LoraStyle> StyleOf(const ShardSet& set) {
  constexpr std::string_view kB = ".qkv_proj.lora_B.";
  for (const char* end : {".weight_k", ".weight_v"})
    if (const StoredTensor* key = FindOnRank(set, 0, kB, end))
      return LoraStyle{QkvStyle::kLinear, key};
  if (const StoredTensor* all = FindOnRank(set, 0, kB, ".weight_qkv"))
    return LoraStyle{QkvStyle::kFused, all};
  if (FindOnRank(set, 0, kB, ".weight_q")) return LoraStyle{QkvStyle::kLinear};
  if (FindOnRank(set, 0, kB, ".weight")) return LoraStyle{QkvStyle::kCoalesced};
  for (const char* name : {".q_proj.lora_", ".k_proj.lora_", ".v_proj.lora_"})
    if (FindOnRank(set, 0, name, "")) return LoraStyle{};
  return std::nullopt;
}

// Sets the form of q, k and v: from names and shapes, otherwise from the claims.
Status DetectQkv(const ShardSet& set, const models::ModelConfig& config,
                 const std::vector<Claims>& claims, Geometry& geometry) {
  const std::optional<LoraStyle> style = StyleOf(set);
  const auto qkv = FirstClaim(claims, &Claims::qkv).first;
  const auto multiplier = FirstClaim(claims, &Claims::kv_multiplier).first;
  geometry.qkv = style ? style->qkv : qkv.value_or(QkvStyle::kSeparate);
  if (style && style->rows) {
    return Multiplier(*style->rows, config, geometry.tp, style->qkv == QkvStyle::kFused)
        .To(geometry.kv_multiplier);
  }
  const bool replicates = geometry.qkv == QkvStyle::kLinear || geometry.qkv == QkvStyle::kFused;
  geometry.kv_multiplier = replicates ? multiplier.value_or(1) : 1;
  const bool known = style && !replicates;
  if (known || multiplier || qkv || geometry.tp == 1 || !FindOnRank(set, 0, ".o_proj.lora_A.", ""))
    return OkStatus();
  return BadUsage(
             "the columns of o_proj on a rank depend on how key heads are replicated, which the "
             "adapter does not record")
      .in(set.location.shard_folder)
      .hint(
          "convert the adapter to hf by itself, with --qkv, --kv-multiplier and --hw of the model "
          "that was trained");
}

// A parameter's tensor that is cut over the ranks: the end of its name, the dimension that is cut,
// and its size on all ranks together.
struct CutTensor {
  std::string name;
  size_t dim = 0;
  int64_t whole = 0;
};

std::vector<CutTensor> CutTensorsOf(const models::Param& param, const models::ModelConfig& config) {
  const std::optional<std::string> own = LoraModule(param, {});
  if (!own) return {};
  if (param.CutDim() == 1) return {{*own + ".lora_A.weight", 1, param.shape[1]}};
  std::vector<CutTensor> tensors = {{*own + ".lora_B.weight", 0, param.shape[0]}};
  const std::string shared = *LoraModule(param, {.qkv = true, .gate_up = true}) + ".lora_B.weight";
  const int64_t all = (config.heads + 2 * config.kv_heads) * config.head_dim;
  if (param.role == models::Role::kQuery) {
    tensors.push_back({shared + "_q", 0, param.shape[0]});
    tensors.push_back({shared + "_qkv", 0, all});
    tensors.push_back({shared, 0, all});
  }
  if (param.role == models::Role::kGate) tensors.push_back({shared, 0, 2 * param.shape[0]});
  return tensors;
}

// merge_sharded_lora leaves whole tensors on every rank, but only a part of the queries of a set
// with replicated key heads.
Status RefuseGathered(const ShardSet& set, const models::Model& model) {
  if (set.location.tp == 1) return OkStatus();
  for (const models::Param& param : model.params)
    for (const CutTensor& cut : CutTensorsOf(param, model.config)) {
      const StoredTensor* found = FindOnRank(set, 0, cut.name, "");
      if (!found || found->name != cut.name || found->shape.size() != 2) continue;
      if (found->shape[cut.dim] != cut.whole) continue;
      return Unsupported(
                 "all {} {} are on one of {} ranks: the shards were gathered when they were saved "
                 "(merge_sharded_lora)",
                 cut.whole, cut.dim == 0 ? "rows" : "columns", set.location.tp)
          .in(set.location.shard_folder)
          .on(found->name)
          .hint("save the adapter with merge_sharded_lora off");
    }
  return OkStatus();
}

Result<models::Hardware> HardwareOf(const std::vector<Claims>& claims,
                                    std::optional<models::Hardware> if_unknown,
                                    const Geometry& geometry) {
  const std::optional<models::Hardware> claimed = FirstClaim(claims, &Claims::hardware).first;
  if (claimed) return *claimed;
  if (if_unknown) return *if_unknown;
  if (geometry.kv_multiplier == 1) return geometry.hardware;  // both orders are the same
  return BadUsage(
             "key heads are stored {} times; the adapter does not record whether for trn1 or for "
             "trn2",
             geometry.kv_multiplier)
      .hint(
          "say --hw trn1 or --hw trn2, if the command accepts it; otherwise convert the adapter to "
          "hf by itself first");
}

}  // namespace

Result<Geometry> DetectLora(const ShardSet& set, const models::Model& model,
                            const std::vector<Claims>& claims,
                            std::optional<models::Hardware> hardware_if_unknown) {
  NXDKIT_TRY(RefuseBaseWeights(set));
  NXDKIT_TRY(RefuseGathered(set, model));
  Geometry geometry;
  geometry.tp = set.location.tp;
  geometry.pp = set.location.pp;
  if (HasMegatronNames(set, *model.config.family)) geometry.names = NameStyle::kMegatron;
  geometry.fused_gate_up =
      !FindOnRank(set, 0, ".gate_proj.lora_", "") && !FindOnRank(set, 0, ".up_proj.lora_", "");
  NXDKIT_TRY(DetectQkv(set, model.config, claims, geometry));
  for (const Claims& claim : claims) {
    NXDKIT_TRY(CheckGridClaims(set, claim).in(set.location.shard_folder));
    NXDKIT_TRY(CheckClaims(geometry, claim).in(set.location.shard_folder));
  }
  NXDKIT_ASSIGN(geometry.hardware,
                HardwareOf(claims, hardware_if_unknown, geometry).in(set.location.shard_folder));
  return geometry;
}

}  // namespace nxdkit::nxd
