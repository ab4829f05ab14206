#include "formats/zero/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "formats/zero/rank_optimizers.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"

namespace nxdkit::zero {
namespace {

void CountGroups(TagState& tag, const Partition& partition,
                 const std::vector<OptimizerFile>& ranks) {
  tag.facts.trained = partition.places.size();
  for (const Place& place : partition.places) {
    const size_t group = ranks.front().group_of[place.group];
    if (tag.facts.groups.size() <= group) tag.facts.groups.resize(group + 1);
    tag.facts.groups[group].push_back(place.name);
  }
}

// The shapes in param_shapes must be those of the module.
Status CheckShapes(const TagState& tag, const Partition& partition) {
  std::map<std::string_view, const StoredTensor*> module;
  for (const NamedTensor& tensor : tag.model().module) module.emplace(tensor.name, &tensor.stored);
  for (const Place& place : partition.places) {
    const auto found = module.find(place.name);
    if (found == module.end())
      return Corrupt("param_shapes has the parameter, but the module does not")
          .in(tag.ModelPath())
          .on(place.name);
    if (found->second->shape != place.shape)
      return Corrupt("param_shapes says {}, the module has {}", ShapeText(place.shape),
                     ShapeText(found->second->shape))
          .in(tag.ModelPath())
          .on(place.name);
  }
  return OkStatus();
}

Status CheckZero(const StoredTensor& flat, int64_t lean, size_t rank, size_t group,
                 std::string_view what) {
  if (flat.shape[0] <= lean) return OkStatus();
  NXDKIT_ASSIGN(const bool zero, IsZeroFrom(flat, lean));
  if (zero) return OkStatus();
  return Corrupt("the padding of {} of group {}, after {} elements, is not zero", what, group, lean)
      .in(flat.storage->path())
      .rank(static_cast<int64_t>(rank))
      .hint("param_shapes are of another run than these files");
}

// Padding is zero in stages 1 and 2: otherwise the parameters are in another order, or another
// run's.
Status CheckPadding(const Partition& partition, const std::vector<OptimizerFile>& ranks) {
  for (size_t r = 0; r < ranks.size(); ++r)
    for (size_t g = 0; g < partition.lengths.size(); ++g) {
      const int64_t lean = partition.lengths[g][r];
      NXDKIT_TRY(CheckZero(ranks[r].masters[g], lean, r, g, "the master weights"));
      if (g >= ranks[r].states.size()) continue;
      for (const auto& [name, tensor] : ranks[r].states[g].tensors)
        NXDKIT_TRY(CheckZero(tensor, lean, r, g, name));
    }
  return OkStatus();
}

}  // namespace

std::string TagState::ModelPath(int rank) const {
  return JoinPath(files.path, files.models.at(rank));
}

bool TagState::IsAlias(const std::string& name) const { return model().aliases.contains(name); }

Status AddWeights12(TagState& tag) {
  std::set<std::string> trained;
  if (tag.model().groups)
    for (const std::vector<NamedShape>& group : *tag.model().groups)
      for (const NamedShape& each : group) trained.insert(each.name);
  tag.facts.form = tag.model().groups ? "ZeRO stage 1 or 2" : "ZeRO stage 0";
  tag.facts.trained = trained.size();
  for (const NamedTensor& tensor : tag.model().module) {
    NXDKIT_TRY(tag.entries.AddWhole(tag.files.models.at(0), tensor.name, tensor.stored));
    if (tag.model().buffers.contains(tensor.name))
      ++tag.facts.buffers;
    else if (tag.model().groups && !trained.contains(tensor.name) && !tag.IsAlias(tensor.name) &&
             *ElementCount(tensor.stored.shape) > 0)
      ++tag.facts.frozen;
  }
  return OkStatus();
}

Status AddState12(TagState& tag) {
  if (tag.files.optimizers.empty() && tag.model().has_optimizer)
    return Unsupported(
               "stage 0 keeps the optimizer's state by numbers, and does not record which "
               "parameter a number is")
        .in(tag.ModelPath())
        .hint("with stage 1 it has names; --no-optimizer takes the weights alone");
  if (tag.files.optimizers.empty()) {
    AddWarning(tag.out, "there are no files of the optimizer: only the weights are read");
    return OkStatus();
  }
  NXDKIT_ASSIGN(const std::vector<OptimizerFile> ranks, ReadRankOptimizers(tag));
  NXDKIT_ASSIGN(const Partition partition, PartitionOf(tag, ranks));
  NXDKIT_TRY(CheckShapes(tag, partition));
  if (tag.options.optimizer) NXDKIT_TRY(CheckPadding(partition, ranks));
  CountGroups(tag, partition, ranks);
  for (const Place& place : partition.places) {
    for (const std::string& alias : tag.model().AliasesOf(place.name))
      NXDKIT_TRY(AddMasters(tag, ranks, place, StateKey(alias, dcp::kMasterWeights)));
    NXDKIT_TRY(AddMasters(tag, ranks, place, StateKey(place.name, dcp::kMasterWeights)));
  }
  NXDKIT_TRY(AddKeptState(tag, partition, ranks));
  tag.facts.proofs.push_back(
      fmt::format("the flat groups of {} have the {} elements of {} parameters and {} of padding",
                  Counted(tag.facts.world, "rank"), partition.elements, partition.places.size(),
                  partition.padding));
  return OkStatus();
}

namespace {

Status CheckFragment(const TagState& tag, const NamedShape& frozen, int rank, int64_t part) {
  const auto& parts = tag.models[static_cast<size_t>(rank)].frozen_parts;
  const auto found = parts.find(frozen.name);
  const auto wrong = [&](Error error) {
    return std::move(error).in(tag.ModelPath(rank)).on(frozen.name).rank(rank);
  };
  if (found == parts.end()) return wrong(Corrupt("there is no part of the frozen parameter"));
  const StoredTensor& stored = found->second;
  if (stored.shape.size() == 1 && IsPacked(stored) && stored.shape[0] == part) return OkStatus();
  return wrong(Corrupt("the part of the frozen parameter is of shape {}, expected {} elements",
                       ShapeText(stored.shape), part));
}

// Every rank has the buffers whole; an empty tensor that is on no list is a second name of a
// module.
Status AddBuffers(TagState& tag) {
  std::vector<std::string> unknown;
  for (const NamedTensor& tensor : tag.model().module) {
    const bool buffer = tag.model().buffers.contains(tensor.name);
    tag.facts.buffers += buffer;
    if (tag.entries.Has(tensor.name)) continue;
    if (buffer || *ElementCount(tensor.stored.shape) > 0)
      NXDKIT_TRY(tag.entries.AddWhole(tag.files.models.at(0), tensor.name, tensor.stored));
    else
      unknown.push_back(tensor.name);
  }
  if (unknown.empty()) return OkStatus();
  const bool one = unknown.size() == 1;
  AddWarning(tag.out,
             fmt::format("{} {} left out: stage 3 does not record which parameter {}; a module may "
                         "have a second name",
                         FirstNames(unknown), one ? "is" : "are", one ? "it is" : "they are"));
  return OkStatus();
}

// MiCS and hpZeRO cut a model over fewer ranks than there are.
Status CheckOneCopy(const TagState& tag) {
  const size_t files = tag.files.optimizers.size();
  const size_t world = tag.model().world ? static_cast<size_t>(*tag.model().world) : 0;
  if (files <= static_cast<size_t>(tag.facts.world) || files != world) return OkStatus();
  return Unsupported("a model of {} ranks that is cut over {} of them (MiCS, hpZeRO) is not read",
                     world, tag.facts.world)
      .in(tag.files.path);
}

}  // namespace

Status AddFrozen3(TagState& tag, int world) {
  for (const NamedShape& frozen : tag.model().frozen) {
    if (tag.entries.Has(frozen.name)) continue;
    ++tag.facts.frozen;
    const int64_t count = *ElementCount(frozen.shape);
    const Place place{frozen.name, frozen.shape, 0, RangesAt(0, count, world)};
    for (int rank = 0; rank < world; ++rank)
      NXDKIT_TRY(CheckFragment(tag, frozen, rank, PartOf(count, world)));
    const auto part = [&](int rank) {
      return &tag.models[static_cast<size_t>(rank)].frozen_parts.at(frozen.name);
    };
    NXDKIT_TRY(tag.entries.AddRanges(tag.files.models, place, frozen.name, part));
    for (const std::string& alias : tag.model().AliasesOf(frozen.name))
      NXDKIT_TRY(tag.entries.AddRanges(tag.files.models, place, alias, part));
  }
  return OkStatus();
}

Result<Stage3> AddWeights3(TagState& tag) {
  if (tag.files.optimizers.empty())
    return NotFound("there are no files of the optimizer, in which stage 3 has the weights")
        .in(tag.files.path);
  Stage3 out;
  NXDKIT_ASSIGN(out.ranks, ReadRankOptimizers(tag));
  NXDKIT_TRY(CheckOneCopy(tag));
  NXDKIT_TRY(CheckRanks(tag.files.models, tag.facts.world, "model's", tag.out.warnings)
                 .in(tag.files.path));
  if (tag.facts.stage != 3)
    return Corrupt("the model's files are those of stage 3, the optimizer says stage {}",
                   tag.facts.stage)
        .in(tag.files.path);
  NXDKIT_ASSIGN(out.partition, PartitionOf(tag, out.ranks));
  for (const Place& place : out.partition.places) {
    for (const std::string& alias : tag.model().AliasesOf(place.name))
      NXDKIT_TRY(AddMasters(tag, out.ranks, place, alias));
    NXDKIT_TRY(AddMasters(tag, out.ranks, place, place.name));
  }
  NXDKIT_TRY(AddFrozen3(tag, tag.facts.world));
  NXDKIT_TRY(AddBuffers(tag));
  for (const NamedTensor& tensor : tag.model().module)
    if (!tag.model().buffers.contains(tensor.name))
      tag.facts.dtypes[tensor.name] = tensor.stored.dtype;
  CountGroups(tag, out.partition, out.ranks);
  tag.facts.proofs.push_back(
      fmt::format("the parts of {} have the {} elements of {} parameters and {} of padding, "
                  "which is not examined",
                  Counted(tag.facts.world, "rank"), out.partition.elements,
                  out.partition.places.size(), out.partition.padding));
  return out;
}

Status AddState3(TagState& tag, const Stage3& stage) {
  return AddKeptState(tag, stage.partition, stage.ranks);
}

}  // namespace nxdkit::zero
