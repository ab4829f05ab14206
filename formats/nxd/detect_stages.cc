#include <fmt/core.h>

#include <charconv>
#include <map>

#include "formats/nxd/detect_steps.h"

namespace nxdkit::nxd {
namespace {

// "model.layers.12.mlp..." -> 12
std::optional<int64_t> LayerOf(std::string_view name) {
  constexpr std::string_view kMark = "layers.";
  const size_t mark = name.find(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  const std::string_view rest = name.substr(mark + kMark.size());
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
  if (error != std::errc() || layer < 0) return std::nullopt;
  return layer;
}

using LayerRanks = std::map<int64_t, int>;  // layer -> pipeline rank

LayerRanks LayersOf(const ShardSet& set) {
  LayerRanks ranks;
  for (const Shard& shard : set.shards) {
    if (shard.file.tp != 0 || shard.file.ep != 0) continue;
    for (const StoredTensor& tensor : shard.tensors.tensors)
      if (const auto layer = LayerOf(tensor.name)) ranks[*layer] = shard.file.pp;
  }
  return ranks;
}

bool Explains(int vpp, const LayerRanks& ranks, int64_t layers, int pp) {
  for (const auto& [layer, stored] : ranks) {
    if (layer >= layers) continue;  // of another model: binding names it
    const Result<int> rank = PipelineRank(layer, layers, pp, vpp);
    if (!rank.ok() || *rank != stored) return false;
  }
  return true;
}

}  // namespace

Status DetectStages(const ShardSet& set, const models::ModelConfig& config,
                    const std::vector<Claims>& claims, Detected& detected) {
  const auto [claimed, origin] = FirstClaim(claims, &Claims::vpp);
  int& vpp = detected.geometry.vpp;
  vpp = claimed.value_or(1);
  const int pp = detected.geometry.pp;
  if (pp == 1) return OkStatus();
  const LayerRanks ranks = LayersOf(set);
  if (!ranks.empty() && ranks.rbegin()->first < config.layers - 1)
    return Error(Errc::kCorrupt,
                 fmt::format("pipeline ranks 0 to {} are here, and layers 0 to {} of {}: the last "
                             "pipeline rank is missing",
                             pp - 1, ranks.rbegin()->first, config.layers))
        .in(set.location.shard_folder);
  if (Explains(vpp, ranks, config.layers, pp)) return OkStatus();
  for (int other = 1; int64_t{other} * pp <= config.layers; ++other) {
    if (!Explains(other, ranks, config.layers, pp)) continue;
    if (claimed)
      return Error(Errc::kUsage, fmt::format("vpp is {} by the layers of each pipeline rank, but "
                                             "is {} by {}",
                                             other, *claimed, origin))
          .in(set.location.shard_folder);
    vpp = other;
    return OkStatus();
  }
  // The trainer's own pipeline_cuts: what is stored is read as it lies.
  detected.warnings.push_back(fmt::format(
      "the {} layers are on the {} pipeline ranks as no vpp of NxD's own cuts puts them",
      config.layers, pp));
  return OkStatus();
}

}  // namespace nxdkit::nxd
