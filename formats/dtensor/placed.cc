#include "formats/dtensor/placed.h"

#include <algorithm>
#include <utility>

#include "formats/torch/pickle_globals.h"
#include "lib/base/errors.h"

namespace nxdkit::dtensor {
namespace {

using torch::PickleList;
using torch::PickleRecord;
using torch::PickleValue;

bool IsGlobal(const PickleValue& value, std::string_view name) {
  const auto* object = std::get_if<torch::OpaqueObject>(&value.value);
  return object && object->qualified_name.ends_with(name) &&
         object->qualified_name.size() > name.size() &&
         object->qualified_name[object->qualified_name.size() - name.size() - 1] == '.';
}

// _rebuild_from_type_v2(_rebuild_wrapper_subclass, CLASS, (...), state): the state; nullptr for
// another class.
const PickleValue* WrappedState(const PickleValue& value, std::string_view class_name) {
  const PickleRecord* record = value.record();
  if (!record || record->name != torch::kRebuildFromType || record->arguments.size() != 4)
    return nullptr;
  if (!IsGlobal(record->arguments[0], "_rebuild_wrapper_subclass") ||
      !IsGlobal(record->arguments[1], class_name))
    return nullptr;
  return &record->arguments[3];
}

// With slots an object's state is (attributes, slots); nullptr unless they are dicts.
const PickleValue* SlotsIn(const PickleValue& state) {
  const PickleValue* slots =
      state.list() && state.list()->size() == 2 ? &state.list()->back() : &state;
  return slots->dict() ? slots : nullptr;
}

const PickleValue* SlotsOf(const PickleValue* value, std::string_view class_name) {
  const PickleRecord* record = value ? value->record() : nullptr;
  return record && IsOf(*record, class_name) && record->state ? SlotsIn(*record->state) : nullptr;
}

Result<Placement> PlacementOf(const PickleValue& value) {
  const PickleRecord* record = value.record();
  // It has no attributes, so it may have no state.
  if (record && IsOf(*record, "Replicate")) return Placement{};
  const bool strided = record && IsOf(*record, "_StridedShard");
  const PickleValue* state = StateOf(&value, strided ? "_StridedShard" : "Shard");
  if (!state)
    return Unsupported("a placement {}, expected Shard, _StridedShard or Replicate",
                       record ? record->name : "of another kind");
  const PickleValue* dim = state->Find("dim");
  const PickleValue* factor = state->Find("split_factor");
  if (!dim || !dim->integer() || (strided && (!factor || !factor->integer())))
    return Corrupt("a placement without dim or split_factor");
  return Placement{strided ? Placement::Kind::kStridedShard : Placement::Kind::kShard,
                   *dim->integer(), strided ? *factor->integer() : 1};
}

Result<Shape> WholeShape(const PickleValue& spec) {
  const PickleValue* meta = spec.Find("tensor_meta");
  const PickleRecord* record = meta ? meta->record() : nullptr;
  const bool good = record && IsOf(*record, "TensorMeta") && !record->arguments.empty();
  const auto shape = good ? ShapeIn(&record->arguments[0]) : std::nullopt;
  if (!shape) return Corrupt("a distributed tensor does not record its whole shape");
  return *shape;
}

}  // namespace

bool PlacedReader::IsPlaced(const PickleValue& value) {
  const PickleValue* state = WrappedState(value, "DTensor");
  if (state) return SlotsIn(*state) != nullptr;
  state = WrappedState(value, "ShardedTensor");
  return state && state->list();
}

Result<std::vector<PlacedTensor>> PlacedReader::Read(const PickleValue& value) {
  if (const PickleValue* state = WrappedState(value, "DTensor")) {
    NXDKIT_ASSIGN(PlacedTensor tensor, ReadDTensor(*SlotsIn(*state)));
    std::vector<PlacedTensor> one;
    one.push_back(std::move(tensor));
    return one;
  }
  return ReadSharded(*WrappedState(value, "ShardedTensor")->list());
}

Result<std::shared_ptr<const DeviceMesh>> PlacedReader::MeshIn(const PickleValue* value) {
  const PickleValue* state = StateOf(value, "DeviceMesh");
  if (!state) return Corrupt("a distributed tensor without a mesh");
  std::shared_ptr<const DeviceMesh>& known = meshes_[value->record()];
  if (!known) {
    NXDKIT_ASSIGN(DeviceMesh mesh, ReadMesh(archive_, *state));
    // A trainer's file has one mesh for all of its tensors, or a few.
    ranks_read_ += mesh.ranks.size();
    if (ranks_read_ > 2 * static_cast<uint64_t>(kMaxMeshRanks))
      return Unsupported("the meshes up to here have {} ranks together", ranks_read_);
    known = std::make_shared<const DeviceMesh>(std::move(mesh));
  }
  return known;
}

Result<PlacedTensor> PlacedReader::ReadDTensor(const PickleValue& slots) {
  const PickleValue* local = slots.Find("_local_tensor");
  const PickleValue* spec = StateOf(slots.Find("_spec"), "DTensorSpec");
  if (!local || !local->tensor() || !spec)
    return Corrupt("a distributed tensor without _local_tensor or _spec");
  PlacedTensor out;
  out.stored = archive_.tensors.at(local->tensor()->index);
  NXDKIT_ASSIGN(out.place.mesh, MeshIn(spec->Find("mesh")));
  NXDKIT_ASSIGN(out.place.shape, WholeShape(*spec));
  const PickleValue* placements = spec->Find("placements");
  if (!placements || !placements->list()) return Corrupt("a distributed tensor has no placements");
  for (const PickleValue& value : *placements->list()) {
    NXDKIT_ASSIGN(const Placement placement, PlacementOf(value));
    out.place.placements.push_back(placement);
  }
  if (!out.place.mesh->coordinate)
    return Corrupt("a distributed tensor does not record the rank's place in its mesh");
  NXDKIT_ASSIGN(out.place.shard,
                ShardAt({out.place.shape, out.place.mesh->shape, out.place.placements},
                        *out.place.mesh->coordinate));
  return out;
}

// (shards of the rank, metadata, process group, specification, references)
Result<std::vector<PlacedTensor>> PlacedReader::ReadSharded(const PickleList& state) {
  const PickleValue* metadata =
      state.size() == 5 ? StateOf(&state[1], "ShardedTensorMetadata") : nullptr;
  const auto shape = metadata ? ShapeIn(metadata->Find("size")) : std::nullopt;
  if (!shape || !state[0].list()) return Corrupt("a ShardedTensor without shards or a size");
  if (!ElementCount(*shape)) return Corrupt("the shape {} is not one", ShapeText(*shape));
  std::vector<PlacedTensor> out;
  for (const PickleValue& value : *state[0].list()) {
    const PickleValue* shard = SlotsOf(&value, "Shard");
    const PickleValue* tensor = shard ? shard->Find("tensor") : nullptr;
    const PickleValue* place = shard ? SlotsOf(shard->Find("metadata"), "ShardMetadata") : nullptr;
    const auto lo = place ? ShapeIn(place->Find("shard_offsets")) : std::nullopt;
    const auto extent = place ? ShapeIn(place->Find("shard_sizes")) : std::nullopt;
    if (!tensor || !tensor->tensor() || !lo || !extent || lo->size() != shape->size() ||
        extent->size() != shape->size())
      return Corrupt("a shard of a ShardedTensor without a tensor, or without its place");
    for (size_t d = 0; d < shape->size(); ++d)
      if ((*lo)[d] < 0 || (*extent)[d] < 0 || (*lo)[d] > (*shape)[d] ||
          (*extent)[d] > (*shape)[d] - (*lo)[d])
        return Corrupt("a shard at {} of {} is outside the shape {}", ShapeText(*lo),
                       ShapeText(*extent), ShapeText(*shape));
    PlacedTensor one;
    one.stored = archive_.tensors.at(tensor->tensor()->index);
    one.place.shape = *shape;
    one.place.shard.shape = *extent;
    const Box box = {*lo, *extent};
    if (box.Volume() > 0) one.place.shard.parts.push_back({box, Shape(lo->size(), 0)});
    out.push_back(std::move(one));
  }
  // From a rank without rows only the whole shape is known.
  if (out.empty()) {
    PlacedTensor none;
    none.place.shape = *shape;
    none.place.shard.shape = Shape(shape->size(), 0);
    out.push_back(std::move(none));
  }
  return out;
}

}  // namespace nxdkit::dtensor
