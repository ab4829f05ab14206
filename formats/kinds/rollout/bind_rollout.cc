#include "formats/kinds/rollout/read_rollout.h"

#include <algorithm>
#include <unordered_set>

#include "formats/kinds/bind.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "lib/base/errors.h"
#include "lib/system/paths.h"

namespace nxdkit::kinds {
namespace {

// NxDI's shards have rank tensors that optimum-neuron's lack: they decide the flavor if no
// configuration does.
Result<rollout::Flavor> FlavorOf(const BoundArtifact& out, const rollout::Geometry& geometry) {
  const rollout::Bundle& bundle = *BundleOf(out.artifact);
  NXDKIT_ASSIGN(const std::vector<TensorLayout> tensors,
                rollout::RankTensors(*out.model, geometry, 0));
  std::unordered_set<std::string_view> known;
  for (const TensorLayout& tensor : tensors) known.insert(tensor.name);
  for (const StoredTensor& stored : bundle.shards.front().tensors)
    if (stored.name.ends_with("rank") && !known.contains(stored.name))
      return rollout::Flavor::kNxdi;
  return rollout::Flavor::kOptimum;
}

bool HasExpertRanks(const rollout::Bundle& bundle) {
  return std::ranges::any_of(bundle.shards.front().tensors, [](const StoredTensor& stored) {
    return stored.name.ends_with(".spmd_rank.rank");
  });
}

Result<rollout::Geometry> RolloutGeometry(const Artifact& artifact, const InputHints& hints) {
  const rollout::Bundle& bundle = *BundleOf(artifact);
  if (bundle.shards.empty() && !bundle.lost_slot.empty())
    return Corrupt("holds the weights, but the link to them, `weights` next to it, is missing")
        .in(bundle.lost_slot)
        .hint("refresh the bundle with --into, which makes the link again");
  if (bundle.shards.empty())
    return Unsupported(
               "the bundle holds no rank shards; it loads its weights from a Hugging Face "
               "checkpoint")
        .in(artifact.path);
  rollout::Geometry geometry;
  geometry.tp = static_cast<int>(bundle.shards.size());
  if (bundle.config) geometry = *bundle.config;
  if (bundle.config && !bundle.config->unsupported.empty())
    return Unsupported("shards made with {} have another layout, which this program does not know",
                       bundle.config->unsupported.front())
        .in(JoinPath(bundle.folder, "neuron_config.json"));
  if (static_cast<int64_t>(bundle.shards.size()) != geometry.tp)
    return Unsupported("only {} of {} ranks were found; a part of a bundle cannot be converted",
                       bundle.shards.size(), geometry.tp)
        .in(bundle.weights_folder);
  if (const std::optional<int> tp = hints.Number("tp"); tp && *tp != geometry.tp)
    return BadUsage("tp is {} by the bundle's shards, but {} by {}", geometry.tp, *tp, hints.origin)
        .in(artifact.path);
  bool fused = false;
  for (const StoredTensor& tensor : bundle.shards.front().tensors)
    fused |= tensor.name.find(".qkv_proj.Wqkv.") != std::string::npos;
  if (bundle.config && bundle.config->fused_qkv != fused)
    return Corrupt("neuron_config.json says fused_qkv {}, but the shards hold {}",
                   bundle.config->fused_qkv, fused ? "Wqkv" : "q_proj, k_proj and v_proj")
        .in(bundle.weights_folder);
  if (const std::optional<bool> claimed = hints.Toggle("fused-qkv"); claimed && *claimed != fused)
    return BadUsage("the shards' q/k/v are {}, {} says otherwise", fused ? "fused" : "separate",
                    hints.origin)
        .in(bundle.weights_folder);
  geometry.fused_qkv = fused;
  return geometry;
}

}  // namespace

Status BindRollout(BoundArtifact& out, const InputHints& hints) {
  NXDKIT_TRY(RequireFamily(out));
  auto layout = std::make_shared<RolloutLayout>();
  rollout::Geometry& geometry = layout->geometry;
  NXDKIT_ASSIGN(geometry, RolloutGeometry(out.artifact, hints));
  if (const rollout::Bundle& bundle = *BundleOf(out.artifact); !bundle.config) {
    NXDKIT_ASSIGN(geometry.flavor, FlavorOf(out, geometry));
    geometry.expert_ranks = HasExpertRanks(bundle);
  }
  for (uint32_t f = 0; f < out.artifact.files.size(); ++f) {
    const int rank = static_cast<int>(out.artifact.ranks[f].tp_rank);
    NXDKIT_ASSIGN(std::vector<TensorLayout> tensors,
                  rollout::RankTensors(*out.model, geometry, rank));
    const NameMap known = ByName(std::move(tensors));
    NXDKIT_TRY(BindFile(out, f, known, UnwrapFiles(out.artifact, f, f + 1, known)).rank(rank));
  }
  out.state = std::move(layout);
  return OkStatus();
}

}  // namespace nxdkit::kinds
