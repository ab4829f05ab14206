#include "formats/nxd/detect.h"

#include <algorithm>
#include <map>
#include <set>

#include "formats/nxd/detect_hardware.h"
#include "formats/nxd/detect_steps.h"
#include "lib/base/errors.h"

namespace nxdkit::nxd {
namespace {

struct Style {
  QkvStyle qkv = QkvStyle::kSeparate;
  NameStyle names = NameStyle::kHf;
  const StoredTensor* key = nullptr;  // proves the multiplier; nullptr: it is 1
};

// Whether q, k and v are stored under their own names: one of them is, or the model has none.
Result<bool> StoresQueryApart(const ShardSet& set, const models::ModelConfig& config) {
  NXDKIT_ASSIGN(const models::Model model, MakeModel(config));
  bool has_query = false;
  for (const models::Param& param : model.params) {
    if (param.role != models::Role::kQuery) continue;
    has_query = true;
    if (FindOnRank(set, 0, param.name, "")) return true;
  }
  return !has_query;
}

Result<Style> StyleOf(const ShardSet& set, const models::ModelConfig& config) {
  const models::Family& family = *config.family;
  if (const StoredTensor* adapter = FindOnRank(set, 0, ".lora_", ""))
    return Unsupported("a LoRA adapter; what can be read here is a model, with its adapters merged")
        .in(set.location.shard_folder)
        .on(adapter->name)
        .hint("nxd-convert --merge-lora merges it into its base");
  if (!family.splits_qkv) return Style{};
  if (HasMegatronNames(set, family)) return Style{QkvStyle::kSeparate, NameStyle::kMegatron};
  const NameStyle names = FindOnRank(set, 0, ".mlp.moe.", "") ? NameStyle::kNxdt : NameStyle::kHf;
  if (const StoredTensor* key = FindOnRank(set, 0, ".qkv_proj.", ".weight_k"))
    return Style{QkvStyle::kLinear, names, key};
  if (const StoredTensor* all = FindOnRank(set, 0, ".qkv_proj.", ".weight_qkv"))
    return Style{QkvStyle::kFused, names, all};
  if (FindOnRank(set, 0, ".qkv_proj.", ".weight")) return Style{QkvStyle::kCoalesced, names};
  NXDKIT_ASSIGN(const bool apart, StoresQueryApart(set, config));
  if (apart) return Style{QkvStyle::kSeparate, names};
  return Unsupported("no known q/k/v projection among the tensor names")
      .in(set.location.shard_folder);
}

// Whether gate and up of an MLP are tensors of their own.
Result<bool> StoresGateApart(const ShardSet& set, const models::ModelConfig& config) {
  NXDKIT_ASSIGN(const models::Model model, MakeModel(config));
  std::set<std::string_view> stored;
  for (const Shard& shard : set.shards)
    if (shard.file.tp == 0)
      for (const StoredTensor& tensor : shard.tensors.tensors) stored.insert(tensor.name);
  return std::ranges::any_of(model.params, [&](const models::Param& param) {
    return param.role == models::Role::kGate && stored.contains(param.name);
  });
}

using LayerRanks = std::map<int64_t, int>;  // layer -> pipeline rank

LayerRanks LayersOf(const ShardSet& set) {
  LayerRanks ranks;
  for (const Shard& shard : set.shards) {
    if (shard.file.tp != 0 || shard.file.ep != 0) continue;
    for (const StoredTensor& tensor : shard.tensors.tensors)
      if (const int64_t layer = models::LayerOf(tensor.name); layer >= 0)
        ranks[layer] = shard.file.pp;
  }
  return ranks;
}

bool Explains(int vpp, const LayerRanks& ranks, int64_t layers, int pp) {
  for (const auto& [layer, stored] : ranks) {
    if (layer >= layers) continue;  // a layer of another model: binding names it
    const Result<int> rank = PipelineRank(layer, layers, pp, vpp);
    if (!rank.ok() || *rank != stored) return false;
  }
  return true;
}

// Sets vpp, to the one whose cuts put every layer where it is.
Status DetectStages(const ShardSet& set, const models::ModelConfig& config,
                    const std::vector<Claims>& claims, Detected& detected) {
  const auto [claimed, origin] = FirstClaim(claims, &Claims::vpp);
  int& vpp = detected.geometry.vpp;
  vpp = claimed.value_or(1);
  const int pp = detected.geometry.pp;
  if (pp == 1) return OkStatus();
  const LayerRanks ranks = LayersOf(set);
  if (!ranks.empty() && ranks.rbegin()->first < config.layers - 1)
    return Corrupt(
               "pipeline ranks 0 to {} are here, and layers 0 to {} of {}: the last pipeline rank "
               "is missing",
               pp - 1, ranks.rbegin()->first, config.layers)
        .in(set.location.shard_folder);
  if (Explains(vpp, ranks, config.layers, pp)) return OkStatus();
  for (int other = 1; int64_t{other} * pp <= config.layers; ++other) {
    if (!Explains(other, ranks, config.layers, pp)) continue;
    if (claimed)
      return BadUsage("vpp is {} by the layers of each pipeline rank, but is {} by {}", other,
                      *claimed, origin)
          .in(set.location.shard_folder);
    vpp = other;
    return OkStatus();
  }
  // The trainer's own pipeline_cuts: the set is read as stored.
  detected.warnings.push_back(fmt::format(
      "the {} layers are on the {} pipeline ranks as no vpp of NxD's own cuts puts them",
      config.layers, pp));
  return OkStatus();
}

// NxDT's Megatron attention with megatron_legacy=False views the rows of a fused projection head by
// head; with one key head on a rank the two orders are the same.
void WarnOfBlockOrder(const models::ModelConfig& config, Detected& detected) {
  const Geometry& geometry = detected.geometry;
  if (geometry.names != NameStyle::kMegatron || config.kv_heads <= geometry.tp) return;
  detected.warnings.push_back(fmt::format(
      "the {} key heads of a rank are assumed to be in block order, as NxD's converter writes them "
      "and megatron_legacy=True reads them; a set that was trained with megatron_legacy=False has "
      "them interleaved, and does not say so",
      config.kv_heads / geometry.tp));
}

}  // namespace

Result<Detected> Detect(const ShardSet& set, const models::ModelConfig& config,
                        const std::vector<Claims>& claims,
                        std::optional<models::Hardware> hardware_if_unknown) {
  Detected detected;
  Geometry& geometry = detected.geometry;
  geometry.tp = set.location.tp;
  geometry.pp = set.location.pp;
  geometry.ep = set.location.ep;
  for (const Claims& claim : claims)
    NXDKIT_TRY(CheckGridClaims(set, claim).in(set.location.shard_folder));
  NXDKIT_ASSIGN(const Style style, StyleOf(set, config));
  geometry.qkv = style.qkv;
  geometry.names = style.names;
  NXDKIT_ASSIGN(const bool gate_apart, StoresGateApart(set, config));
  geometry.fused_gate_up = !gate_apart;
  if (style.key) {
    const bool fused = style.qkv == QkvStyle::kFused;
    NXDKIT_ASSIGN(geometry.kv_multiplier, Multiplier(*style.key, config, geometry.tp, fused));
  }
  for (const Claims& claim : claims)
    NXDKIT_TRY(CheckClaims(geometry, claim).in(set.location.shard_folder));
  NXDKIT_TRY(HeadPlacement(config, geometry).in(set.location.shard_folder));
  NXDKIT_TRY(DetectStages(set, config, claims, detected));
  NXDKIT_TRY(DetectHardware(set, config, claims, hardware_if_unknown, detected));
  WarnOfBlockOrder(config, detected);
  return detected;
}

}  // namespace nxdkit::nxd
