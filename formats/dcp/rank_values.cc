#include "formats/dcp/rank_values.h"

#include <algorithm>
#include <utility>

#include "formats/torch/pickle_globals.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::dcp {
namespace {

using torch::PickleDict;
using torch::PickleList;
using torch::PickleRecord;
using torch::PickleValue;

bool IsNamed(const PickleValue& value, std::string_view name) {
  const auto* object = std::get_if<torch::OpaqueObject>(&value.value);
  return object && object->qualified_name == name;
}

// The state of a record of this class, a dict; nullptr for anything else.
const PickleValue* SlotState(const PickleValue* value, std::string_view class_name) {
  const PickleRecord* record = value ? value->record() : nullptr;
  const bool good = record && record->name == class_name && record->state && record->state->dict();
  return good ? &*record->state : nullptr;
}

std::optional<Shape> ShapeIn(const PickleValue* value) {
  if (!value) return std::nullopt;
  if (const auto* size = std::get_if<torch::TorchSize>(&value->value)) return size->dims;
  if (!value->list()) return std::nullopt;
  Shape out;
  for (const PickleValue& item : *value->list()) {
    if (!item.integer()) return std::nullopt;
    out.push_back(*item.integer());
  }
  return out;
}

// A mesh of ranks: each dimension of it is a layout of its own, of one size or several.
std::optional<Shape> MeshOf(const PickleValue& mesh) {
  const PickleValue* layout = SlotState(mesh.Find("_layout"), torch::kMeshLayoutClass);
  const PickleValue* axes = layout ? layout->Find("axes") : nullptr;
  if (!axes || !axes->list()) return std::nullopt;
  Shape out;
  for (const PickleValue& axis : *axes->list()) {
    const PickleValue* state = SlotState(&axis, torch::kFlatLayoutClass);
    const auto shape = state ? ShapeIn(state->Find("shape")) : std::nullopt;
    const auto ranks = shape ? ElementCount(*shape) : std::nullopt;
    if (!ranks) return std::nullopt;
    out.push_back(*ranks);
  }
  return out;
}

Result<Placement> PlacementOf(const PickleValue& value) {
  // It has no attributes, and so perhaps no state.
  if (value.record() && value.record()->name == torch::kReplicateClass) return Placement{};
  const bool strided = SlotState(&value, torch::kStridedShardClass) != nullptr;
  const PickleValue* state =
      SlotState(&value, strided ? torch::kStridedShardClass : torch::kShardClass);
  if (!state)
    return Unsupported("a placement {}, expected Shard, _StridedShard or Replicate",
                       value.record() ? value.record()->name : "of another kind");
  const PickleValue* dim = state->Find("dim");
  const PickleValue* factor = state->Find("split_factor");
  if (!dim || !dim->integer() || (strided && (!factor || !factor->integer())))
    return Corrupt("a placement without dim or split_factor");
  return Placement{strided ? Placement::Kind::kStridedShard : Placement::Kind::kShard,
                   *dim->integer(), strided ? *factor->integer() : 1};
}

Result<OwnPlace> SpecPlace(const PickleValue& spec) {
  OwnPlace out;
  const PickleValue* mesh = SlotState(spec.Find("mesh"), torch::kDeviceMeshClass);
  const auto ranks = mesh ? MeshOf(*mesh) : std::nullopt;
  const auto coordinate = mesh ? ShapeIn(mesh->Find("_coordinate_on_dim")) : std::nullopt;
  if (!ranks || !coordinate)
    return Unsupported("the mesh of a distributed tensor is not as torch 2.15 saves it");
  out.sharding.mesh = *ranks;
  out.coordinate = *coordinate;
  const PickleValue* meta = spec.Find("tensor_meta");
  const PickleRecord* record = meta ? meta->record() : nullptr;
  const auto shape = record && record->name == torch::kTensorMetaClass && !record->arguments.empty()
                         ? ShapeIn(&record->arguments[0])
                         : std::nullopt;
  if (!shape) return Corrupt("a distributed tensor does not say its whole shape");
  out.sharding.shape = *shape;
  const PickleValue* placements = spec.Find("placements");
  if (!placements || !placements->list()) return Corrupt("a distributed tensor has no placements");
  for (const PickleValue& value : *placements->list()) {
    NXDKIT_ASSIGN(const Placement placement, PlacementOf(value));
    out.sharding.placements.push_back(placement);
  }
  return out;
}

// _rebuild_from_type_v2(_rebuild_wrapper_subclass, DTensor, (...), (attributes, slots)): the slots
// have the rank's tensor and how it is placed.
const PickleValue* SlotsOf(const PickleRecord& record) {
  const PickleList& arguments = record.arguments;
  if (record.name != torch::kRebuildFromType || arguments.size() != 4) return nullptr;
  if (!IsNamed(arguments[0], torch::kRebuildWrapper) ||
      !IsNamed(arguments[1], torch::kDTensorClass))
    return nullptr;
  const PickleValue& state = arguments[3];
  const PickleValue* slots =
      state.list() && state.list()->size() == 2 ? &state.list()->back() : &state;
  return slots->dict() ? slots : nullptr;
}

bool IsTensor(const PickleValue& value) {
  return value.tensor() || (value.record() && SlotsOf(*value.record()));
}

// The pickle's reader bounds the nesting, and how much there is to walk.
bool HasParts(const PickleValue& value) {
  if (value.dict() || IsTensor(value)) return true;
  return value.list() && std::ranges::any_of(*value.list(), HasParts);
}

// Numbers, strings and containers of them.
bool IsPlain(const PickleValue& value) {
  if (value.tensor() || value.reference() || value.record()) return false;
  if (std::holds_alternative<torch::OpaqueObject>(value.value)) return false;
  if (const auto* set = std::get_if<PickleValue::Set>(&value.value))
    return std::ranges::all_of(*set->items, IsPlain);
  return !value.list() || std::ranges::all_of(*value.list(), IsPlain);
}

struct Walker {
  const torch::Archive& archive;
  ValuePath path = {};
  RankValues out = {};

  Status Walk(const PickleValue& value) {
    if (IsTensor(value)) return AddTensor(value).on(path.Text());
    if (value.dict()) return WalkDict(*value.dict());
    if (value.list() && HasParts(value)) return WalkList(*value.list());
    if (IsPlain(value))
      out.objects.push_back({path, value});
    else
      out.left_out.push_back(path);
    return OkStatus();
  }

  Status WalkDict(const PickleDict& dict) {
    for (const auto& [key, value] : dict) {
      if (key.string())
        path.parts.emplace_back(*key.string());
      else if (key.integer())
        path.parts.emplace_back(*key.integer());
      else
        return Unsupported("a dict has a key that is not a string and not a number")
            .on(path.Text());
      NXDKIT_TRY(Walk(value));
      path.parts.pop_back();
    }
    return OkStatus();
  }

  Status WalkList(const PickleList& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      path.parts.emplace_back(static_cast<int64_t>(i));
      NXDKIT_TRY(Walk(list[i]));
      path.parts.pop_back();
    }
    return OkStatus();
  }

  Status AddTensor(const PickleValue& value) {
    if (const torch::TensorIndex* index = value.tensor()) {
      out.tensors.push_back({path, archive.tensors.at(index->index), std::nullopt});
      return OkStatus();
    }
    const PickleValue* slots = SlotsOf(*value.record());
    const PickleValue* local = slots->Find("_local_tensor");
    const PickleValue* spec = SlotState(slots->Find("_spec"), torch::kDTensorSpecClass);
    if (!local || !local->tensor() || !spec)
      return Corrupt("a distributed tensor without _local_tensor or _spec");
    NXDKIT_ASSIGN(OwnPlace place, SpecPlace(*spec));
    out.tensors.push_back({path, archive.tensors.at(local->tensor()->index), std::move(place)});
    return OkStatus();
  }
};

}  // namespace

Result<RankValues> ValuesOf(const torch::Archive& archive) {
  Walker walker{archive};
  NXDKIT_TRY(walker.Walk(archive.root));
  return std::move(walker.out);
}

}  // namespace nxdkit::dcp
