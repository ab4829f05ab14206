#include "formats/artifact/bind.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "formats/artifact/bind_dcp.h"
#include "formats/artifact/bind_delta.h"
#include "formats/artifact/lora/merge_lora.h"
#include "formats/artifact/optimizer/bind_optimizer.h"
#include "formats/artifact/optimizer/keep_params.h"
#include "formats/models/experts.h"
#include "formats/models/rank_tensors.h"
#include "formats/rollout/rollout_layout.h"
#include "lib/base/errors.h"
#include "lib/system/paths.h"

namespace nxdkit::ops {
namespace {

using NameMap = std::unordered_map<std::string, TensorLayout>;

NameMap ByName(std::vector<TensorLayout> tensors) {
  NameMap map;
  map.reserve(tensors.size());
  for (TensorLayout& tensor : tensors) {
    std::string name = tensor.name;
    map.emplace(std::move(name), std::move(tensor));
  }
  return map;
}

Status BindFile(BoundArtifact& out, uint32_t file, const NameMap& known) {
  out.bound.stored.reserve(out.artifact.tensor_count());
  out.bound.layout.tensors.reserve(out.artifact.tensor_count());
  for (const StoredTensor& stored : out.artifact.files[file].tensors) {
    const auto it = known.find(stored.name);
    if (it != known.end()) {
      out.bound.Add(it->second, stored);
      out.bound.layout.tensors.back().file = file;
      continue;
    }
    if (models::IsIgnorable(*out.model->config.family, stored.name)) {
      out.left_out.push_back(stored.name);
      continue;
    }
    return Unsupported("the {} family has no such tensor in this layout; it would be lost",
                       out.model->config.family->model_type)
        .in(out.artifact.files[file].path)
        .on(stored.name);
  }
  return OkStatus();
}

Status RequireFamily(BoundArtifact& out) {
  if (out.artifact.config_fault) return *out.artifact.config_fault;
  if (!out.artifact.config)
    return NotFound("no config.json: the shapes alone do not tell heads, layers and family")
        .in(out.artifact.path)
        .hint("name one with --config");
  NXDKIT_ASSIGN(out.model, MakeModel(*out.artifact.config).in(out.artifact.config_path));
  out.params = out.model->Logical();
  return OkStatus();
}

// A model that nobody wrote a table for: each tensor is its own parameter.
Status BindPlain(BoundArtifact& out) {
  std::unordered_map<std::string, std::string> seen;
  for (uint32_t f = 0; f < out.artifact.files.size(); ++f) {
    for (const StoredTensor& stored : out.artifact.files[f].tensors) {
      const auto [it, added] = seen.emplace(stored.name, out.artifact.files[f].path);
      if (!added)
        return Corrupt("the tensor is in {} too", it->second)
            .in(out.artifact.files[f].path)
            .on(stored.name);
      const auto number = static_cast<uint32_t>(out.params.size());
      out.params.push_back({stored.name, stored.shape, 0, 0});
      out.bound.Add(WholeTensor(stored.name, f, number, stored.shape), stored);
    }
  }
  return OkStatus();
}

Status BindWhole(BoundArtifact& out) {
  if (out.artifact.config_fault)
    out.artifact.warnings.push_back(out.artifact.config_fault->ToString() +
                                    "; without it every tensor counts as a parameter of its own");
  if (!out.artifact.config || !out.artifact.config->family) return BindPlain(out);
  NXDKIT_TRY(RequireFamily(out));
  NameMap known = ByName(models::HfTensors(*out.model, true));
  known.merge(ByName(models::FusedExperts(*out.model)));
  for (uint32_t f = 0; f < out.artifact.files.size(); ++f) NXDKIT_TRY(BindFile(out, f, known));
  return OkStatus();
}

// The reference converter slices the experts for every expert parallel rank, and then stores all of
// them all the same.
Status CheckExperts(const BoundArtifact& out) {
  for (size_t t = 0; t < out.bound.stored.size(); ++t) {
    const StoredTensor& stored = out.bound.stored[t];
    const Shape& shape = out.bound.layout.tensors[t].shape;
    if (out.nxd_geometry.ep == 1 || shape.size() != 3 || stored.shape.size() != 3 ||
        stored.shape == shape || stored.shape[0] != out.model->config.experts)
      continue;
    return Corrupt(
               "all {} experts are stored here, {} of each of the {} expert parallel ranks were "
               "expected",
               stored.shape[0], shape[0], out.nxd_geometry.ep)
        .in(stored.storage->path())
        .on(stored.name)
        .hint(
            "NxD's checkpoint_converter.py writes such sets for --ep_size above 1; convert the "
            "original checkpoint again with nxd-convert --ep");
  }
  return OkStatus();
}

Status BindNxd(BoundArtifact& out, const InputHints& hints) {
  NXDKIT_TRY(RequireFamily(out));
  std::vector<nxd::Claims> claims{hints.claims};
  if (out.artifact.sidecar) claims.push_back(out.artifact.sidecar->claims);
  if (out.artifact.mp_record) {
    NXDKIT_TRY(nxd::CheckMpHeads(*out.artifact.mp_record, out.model->config));
    claims.push_back(out.artifact.mp_record->claims);
  }
  NXDKIT_ASSIGN(const nxd::Detected detected, nxd::Detect(*out.artifact.set, out.model->config,
                                                          claims, hints.hardware_if_unknown));
  out.nxd_geometry = detected.geometry;
  out.replicas = detected.replicas;
  out.artifact.warnings.insert(out.artifact.warnings.end(), detected.warnings.begin(),
                               detected.warnings.end());
  std::map<std::pair<int, int>, NameMap> by_rank;  // tp and ep rank
  for (uint32_t f = 0; f < out.artifact.files.size(); ++f) {
    const nxd::ShardFile& file = out.artifact.set->shards[f].file;
    const auto [known, added] = by_rank.try_emplace({file.tp, file.ep});
    if (added) {
      // What cannot be laid out over the set's ranks is not this set's config.
      NXDKIT_ASSIGN(std::vector<nxd::RankTensor> tensors,
                    nxd::RankTensors(*out.model, detected.geometry, file.tp, true, file.ep)
                        .in(out.artifact.config_path));
      std::vector<TensorLayout> layouts;
      for (nxd::RankTensor& tensor : tensors) layouts.push_back(std::move(tensor.layout));
      known->second = ByName(std::move(layouts));
    }
    NXDKIT_TRY(BindFile(out, f, known->second).rank(file.tp));
  }
  return CheckExperts(out);
}

// NxDI's shards have rank tensors that optimum-neuron's lack: they tell the flavor where no
// configuration does.
Result<rollout::Flavor> FlavorOf(const BoundArtifact& out, const rollout::Geometry& geometry) {
  NXDKIT_ASSIGN(const std::vector<TensorLayout> tensors,
                rollout::RankTensors(*out.model, geometry, 0));
  std::unordered_set<std::string_view> known;
  for (const TensorLayout& tensor : tensors) known.insert(tensor.name);
  for (const StoredTensor& stored : out.artifact.bundle->shards.front().tensors)
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
  const rollout::Bundle& bundle = *artifact.bundle;
  if (bundle.shards.empty() && !bundle.lost_slot.empty())
    return Corrupt("holds the weights, but the link to them, `weights` beside it, is missing")
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
    return Unsupported("{} of {} ranks are here; a part of a bundle cannot be converted",
                       bundle.shards.size(), geometry.tp)
        .in(bundle.weights_folder);
  if (hints.claims.tp && *hints.claims.tp != geometry.tp)
    return BadUsage("tp is {} by the bundle's shards, but {} by {}", geometry.tp, *hints.claims.tp,
                    hints.claims.origin)
        .in(artifact.path);
  bool fused = false;
  for (const StoredTensor& tensor : bundle.shards.front().tensors)
    fused |= tensor.name.find(".qkv_proj.Wqkv.") != std::string::npos;
  if (bundle.config && bundle.config->fused_qkv != fused)
    return Corrupt("neuron_config.json says fused_qkv {}, but the shards hold {}",
                   bundle.config->fused_qkv, fused ? "Wqkv" : "q_proj, k_proj and v_proj")
        .in(bundle.weights_folder);
  if (hints.fused_qkv && *hints.fused_qkv != fused)
    return BadUsage("the shards' q/k/v are {}, {} says otherwise", fused ? "fused" : "separate",
                    hints.claims.origin)
        .in(bundle.weights_folder);
  geometry.fused_qkv = fused;
  return geometry;
}

Status BindRollout(BoundArtifact& out, const InputHints& hints) {
  NXDKIT_TRY(RequireFamily(out));
  NXDKIT_ASSIGN(out.rollout_geometry, RolloutGeometry(out.artifact, hints));
  if (!out.artifact.bundle->config) {
    NXDKIT_ASSIGN(out.rollout_geometry.flavor, FlavorOf(out, out.rollout_geometry));
    out.rollout_geometry.expert_ranks = HasExpertRanks(*out.artifact.bundle);
  }
  for (uint32_t f = 0; f < out.artifact.files.size(); ++f) {
    const int rank = static_cast<int>(out.artifact.ranks[f].tp_rank);
    NXDKIT_ASSIGN(std::vector<TensorLayout> tensors,
                  rollout::RankTensors(*out.model, out.rollout_geometry, rank));
    NXDKIT_TRY(BindFile(out, f, ByName(std::move(tensors))).rank(rank));
  }
  return OkStatus();
}

// A weight that is not a floating point number is not this model's, whatever its shape says. What
// an optimizer or a run keeps beside the weights may be one.
Status CheckWeights(const BoundArtifact& artifact) {
  for (size_t t = 0; t < artifact.bound.stored.size(); ++t) {
    const StoredTensor& stored = artifact.bound.stored[t];
    const TensorLayout& layout = artifact.bound.layout.tensors[t];
    if (layout.dtype || Info(stored.dtype).floating) continue;
    if (!layout.pieces.empty() && layout.pieces.front().param >= artifact.model_params()) continue;
    return Unsupported("dtype {} found; the weights of a {} model are floating point numbers",
                       Name(stored.dtype), artifact.model->config.family->model_type)
        .in(stored.storage->path())
        .on(stored.name);
  }
  return OkStatus();
}

}  // namespace

std::vector<std::string> BoundOptimizer::EntryNames() const {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const auto& of_param : entries)
    if (of_param)
      for (const OptimizerEntry& entry : *of_param) add(entry.name);
  for (const auto& master : masters)
    if (master) add(master->name);
  return names;
}

Dtype NamedDtypes::Of(const std::string& name) const {
  const auto other = others.find(name);
  return other == others.end() ? most : other->second;
}

const OptimizerEntry* BoundOptimizer::Find(uint32_t param, std::string_view name) const {
  if (name == nxd::kMasterWeights) return masters[param] ? &*masters[param] : nullptr;
  if (!entries[param]) return nullptr;
  for (const OptimizerEntry& entry : *entries[param])
    if (entry.name == name) return &entry;
  return nullptr;
}

size_t LoraParts::pair_count() const {
  return static_cast<size_t>(
      std::ranges::count_if(pairs, [](const auto& pair) { return pair.has_value(); }));
}

size_t LoraParts::whole_count() const {
  return static_cast<size_t>(
      std::ranges::count_if(wholes, [](const auto& whole) { return whole.has_value(); }));
}

bool StoresHead(const BoundArtifact& artifact) {
  return std::ranges::any_of(artifact.bound.layout.tensors, [](const TensorLayout& tensor) {
    return tensor.name == "lm_head.weight" || tensor.name == "language_model.output_layer.weight";
  });
}

Result<BoundArtifact> Bind(Artifact artifact, const InputHints& hints) {
  BoundArtifact out;
  out.artifact = std::move(artifact);
  out.bound.layout.files = out.artifact.ranks;
  switch (out.artifact.kind) {
    case Kind::kHf:
    case Kind::kTorch:
      NXDKIT_TRY(BindWhole(out));
      break;
    case Kind::kNxd:
      NXDKIT_TRY(BindNxd(out, hints));
      if (hints.optimizer) NXDKIT_TRY(BindOptimizer(out, hints));
      break;
    case Kind::kRollout:
      NXDKIT_TRY(BindRollout(out, hints));
      break;
    case Kind::kDelta:
      NXDKIT_TRY(BindDelta(out, hints));
      break;
    case Kind::kDcp:
      NXDKIT_TRY(BindDcp(out, hints));
      break;
  }
  // Shape or dtype faults name the file and tensor here, before anything is planned.
  NXDKIT_TRY(CheckBinding(out.bound));
  if (out.model) NXDKIT_TRY(CheckWeights(out));
  return out;
}

Result<BoundArtifact> OpenAndBind(const std::string& path, Kind kind, const InputHints& hints) {
  NXDKIT_ASSIGN(Artifact artifact, OpenArtifact(path, kind, hints));
  if (hints.lora.empty()) return Bind(std::move(artifact), hints);
  NXDKIT_ASSIGN(BoundArtifact base, Bind(std::move(artifact), hints));
  LeaveState(base, "it is of the weights before the adapter is merged");
  return MergeLora(std::move(base), hints);
}

}  // namespace nxdkit::ops
