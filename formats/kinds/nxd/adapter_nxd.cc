#include "formats/kinds/nxd/read_nxd.h"

#include <algorithm>
#include <set>

#include "formats/adapter/lora_config.h"
#include "formats/kinds/bind.h"
#include "formats/kinds/nxd/nxd_options.h"
#include "formats/kinds/nxd/nxd_state.h"
#include "formats/kinds/table.h"
#include "formats/nxd/detect_lora.h"
#include "lib/base/errors.h"
#include "lib/system/paths.h"

namespace nxdkit::kinds {
namespace {

// The tensors of a rank if every linear layer were adapted, or only the given ones.
Result<NameMap> Known(const models::Model& model, const nxd::Geometry& geometry,
                      const std::vector<std::optional<nxd::LoraPair>>& pairs, int rank) {
  NXDKIT_ASSIGN(std::vector<nxd::RankTensor> tensors,
                nxd::LoraRankTensors(model, geometry, pairs, Dtype::kF32, rank));
  std::vector<TensorLayout> layouts;
  for (nxd::RankTensor& tensor : tensors) {
    tensor.layout.dtype.reset();  // taken from the stored tensor
    layouts.push_back(std::move(tensor.layout));
  }
  return ByName(std::move(layouts));
}

std::set<std::string> NamesIn(const Artifact& artifact) {
  std::set<std::string> names;
  for (const TensorFile& file : artifact.files)
    for (const StoredTensor& stored : file.tensors) names.insert(stored.name);
  return names;
}

// The base's weights that the stored tensors adapt.
Result<std::vector<uint32_t>> FindTargets(const models::Model& model, const nxd::Geometry& geometry,
                                          const std::set<std::string>& names) {
  // Assumes each weight to have a B of its own: the known names that are stored show which are
  // there.
  std::vector<std::optional<nxd::LoraPair>> all(model.params.size());
  for (uint32_t i = 0; i < model.params.size(); ++i)
    if (nxd::LoraModule(model.params[i], nxd::SharingOf(geometry))) all[i] = nxd::LoraPair{i, i, 1};
  NXDKIT_ASSIGN(const NameMap known, Known(model, geometry, all, 0));
  std::set<uint32_t> targets;
  for (const auto& [name, layout] : known)
    if (name.find(".lora_B.") != std::string::npos && names.contains(name))
      for (const Piece& piece : layout.pieces) targets.insert(piece.param);
  return std::vector<uint32_t>(targets.begin(), targets.end());
}

Status CheckRanks(const BoundArtifact& out) {
  for (const TensorFile& file : out.artifact.files)
    for (const StoredTensor& stored : file.tensors) {
      const bool a = stored.name.find(".lora_A.") != std::string::npos;
      const bool b = stored.name.find(".lora_B.") != std::string::npos;
      if (!a && !b) continue;
      if (stored.shape.size() == 2 && stored.shape[a ? 0 : 1] == out.lora->config.rank) continue;
      return Corrupt("shape {} found; {} says rank {}", ShapeText(stored.shape),
                     out.lora->config_path, out.lora->config.rank)
          .in(file.path)
          .on(stored.name);
    }
  return OkStatus();
}

Status BindFiles(BoundArtifact& out, const models::Model& model, const nxd::Geometry& geometry) {
  std::vector<NameMap> known;
  for (int t = 0; t < geometry.tp; ++t) {
    NXDKIT_ASSIGN(NameMap map, Known(model, geometry, out.lora->pairs, t));
    known.push_back(std::move(map));
  }
  for (uint32_t f = 0; f < out.artifact.files.size(); ++f) {
    const int64_t rank = out.artifact.ranks[f].tp_rank;
    for (const StoredTensor& stored : out.artifact.files[f].tensors) {
      const auto it = known.at(static_cast<size_t>(rank)).find(stored.name);
      if (it == known[static_cast<size_t>(rank)].end())
        return Unsupported(
                   "adapters of the {} family have no such tensor in this layout; it would be lost",
                   model.config.family->model_type)
            .in(out.artifact.files[f].path)
            .on(stored.name)
            .rank(rank);
      if (!Info(stored.dtype).floating)
        return Unsupported("dtype {} found; adapters are floating point numbers",
                           Name(stored.dtype))
            .in(out.artifact.files[f].path)
            .on(stored.name);
      out.bound.Add(it->second, stored);
      out.bound.layout.tensors.back().file = f;
    }
  }
  return OkStatus();
}

}  // namespace

bool HoldsLora(const Artifact& set, const InputHints&) {
  return !set.files.empty() &&
         std::ranges::any_of(set.files.front().tensors, [](const StoredTensor& stored) {
           return stored.name.find(".lora_") != std::string::npos;
         });
}

Result<std::vector<std::string>> LoraSetFolders(const std::string& path, const InputHints& hints,
                                                const Looker& look) {
  NXDKIT_ASSIGN(const nxd::SetLocation location, nxd::Locate(path, hints.Text("tag"), look));
  return std::vector<std::string>{location.tag_folder, location.root, ParentPath(location.root)};
}

Status BindLoraSet(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing,
                   const InputHints& hints) {
  if (!base.model)
    return Unsupported(
               "how the shards of this adapter are cut follows from its base's family, which has "
               "no parameter table here")
        .in(out.artifact.path);
  const Looker look = out.artifact.look;
  NXDKIT_ASSIGN(nxd::SetLocation location, nxd::Locate(out.artifact.path, hints.Text("tag"), look));
  out.artifact.warnings = location.warnings;
  if (location.choice) out.artifact.choices.push_back(*location.choice);
  NXDKIT_ASSIGN(nxd::ShardSet set, nxd::Read(std::move(location), look));
  NXDKIT_ASSIGN(
      LoraConfigFile config,
      FindLoraConfig(set.shards.front().file.path,
                     {set.location.shard_folder, set.location.tag_folder, set.location.root}));
  out.lora->config = std::move(config.config);
  out.lora->config_path = std::move(config.path);
  if (out.lora->config.dora)
    return Unsupported("NxD's adapters have no magnitude vectors")
        .in(out.lora->config_path)
        .member("use_dora");
  auto state = std::make_shared<NxdState>();
  NXDKIT_ASSIGN(state->sidecar, nxd::ReadSidecar(set.location.tag_folder, look));
  std::vector<nxd::Claims> claims{ClaimsOf(hints)};
  if (state->sidecar) claims.push_back(state->sidecar->claims);
  auto layout = std::make_shared<NxdLayout>();
  NXDKIT_ASSIGN(layout->geometry,
                nxd::DetectLora(set, *base.model, claims, HardwareIfUnknown(hints)));
  const nxd::Geometry geometry = layout->geometry;
  for (const nxd::Shard& shard : set.shards) {
    out.artifact.files.push_back(shard.tensors);
    out.artifact.ranks.push_back({shard.file.path, shard.file.tp, shard.file.pp});
  }
  const std::string shard_folder = set.location.shard_folder;
  out.artifact.kind = &kNxd;
  out.artifact.folder = set.location.tag_folder;
  state->set = std::move(set);
  out.artifact.state = std::move(state);
  out.state = std::move(layout);
  // NxD has no rank patterns: one rank for all.
  NXDKIT_TRY(CheckRanks(out));
  NXDKIT_ASSIGN(const std::vector<uint32_t> targets,
                FindTargets(*base.model, geometry, NamesIn(out.artifact)));
  const nxd::LoraSharing own = nxd::SharingOf(geometry);
  LoraNumbering numbering(base, out, {own.qkv || sharing.qkv, own.gate_up || sharing.gate_up});
  for (uint32_t target : targets)
    if (!base.like || base.like->pairs[target]) NXDKIT_TRY(numbering.AddPair(target));
  NXDKIT_TRY(BindFiles(out, *base.model, geometry));
  // An incomplete pair, on any rank.
  NXDKIT_TRY(PrimaryPlaces::Find(out.params, out.bound.layout).in(shard_folder));
  return OkStatus();
}

}  // namespace nxdkit::kinds
