#include "formats/dtensor/mesh.h"

#include <algorithm>

#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/base/little_endian.h"

namespace nxdkit::dtensor {
namespace {

using torch::PickleValue;

const PickleValue* FindEither(const PickleValue& state, std::string_view a, std::string_view b) {
  const PickleValue* found = state.Find(a);
  return found ? found : state.Find(b);
}

// A tensor of int32 or int64 that lists ranks.
Result<std::vector<int64_t>> RanksIn(const torch::Archive& archive, const PickleValue* value) {
  const torch::TensorIndex* index = value ? value->tensor() : nullptr;
  if (!index) return Corrupt("the mesh of a distributed tensor does not list its ranks");
  const StoredTensor& tensor = archive.tensors.at(index->index);
  const auto count = ElementCount(tensor.shape);
  const bool narrow = tensor.dtype == Dtype::kI32;
  if (!count || *count > kMaxMeshRanks || (!narrow && tensor.dtype != Dtype::kI64) ||
      !IsPacked(tensor))
    return Unsupported("the ranks of a mesh are a tensor {} {}", Name(tensor.dtype),
                       ShapeText(tensor.shape));
  std::string bytes(static_cast<size_t>(*count) * (narrow ? 4 : 8), '\0');
  NXDKIT_TRY(tensor.storage->ReadAt(tensor.offset, std::as_writable_bytes(std::span(bytes))));
  std::vector<int64_t> ranks;
  for (size_t at = 0; at < bytes.size(); at += narrow ? 4 : 8)
    ranks.push_back(narrow ? static_cast<int32_t>(LoadLittle<uint32_t>(bytes, at))
                           : static_cast<int64_t>(LoadLittle<uint64_t>(bytes, at)));
  return ranks;
}

// One size or stride of an axis: a number, or a tuple of one; () stands for `instead`.
Result<int64_t> OneOf(const PickleValue* value, int64_t instead) {
  if (value && value->integer()) return *value->integer();
  const auto list = ShapeIn(value);
  if (!list) return Corrupt("an axis of a mesh without shape or stride");
  if (list->size() > 1) return Unsupported("an axis of a mesh in {} parts", list->size());
  return list->empty() ? instead : list->front();
}

struct Axis {
  int64_t size = 1;
  int64_t stride = 0;
};

Result<std::vector<Axis>> AxesOf(const PickleValue& layout) {
  std::vector<Axis> axes;
  if (const PickleValue* list = layout.Find("axes"); list && list->list()) {
    for (const PickleValue& axis : *list->list()) {
      const PickleValue* state = StateOf(&axis, "_FlatLayout");
      if (!state) return Corrupt("an axis of a mesh that is not a _FlatLayout");
      Axis one;
      NXDKIT_TRY(OneOf(state->Find("shape"), 1).To(one.size));
      NXDKIT_TRY(OneOf(state->Find("stride"), 0).To(one.stride));
      axes.push_back(one);
    }
    return axes;
  }
  const PickleValue* shape = layout.Find("shape");
  const PickleValue* stride = layout.Find("stride");
  if (!shape || !stride) return Unsupported("a _MeshLayout without axes, and without a shape");
  // With one dimension both may be plain numbers.
  static const torch::PickleList kNone;
  const bool list = shape->list() && stride->list();
  if (list && shape->list()->size() != stride->list()->size())
    return Corrupt("a _MeshLayout of {} sizes and {} strides", shape->list()->size(),
                   stride->list()->size());
  const size_t count = list ? shape->list()->size() : 1;
  for (size_t i = 0; i < count; ++i) {
    Axis one;
    NXDKIT_TRY(OneOf(list ? &(*shape->list())[i] : shape, 1).To(one.size));
    NXDKIT_TRY(OneOf(list ? &(*stride->list())[i] : stride, 0).To(one.stride));
    axes.push_back(one);
  }
  return axes;
}

// Where the mesh begins in the list of ranks. The layout is common to all meshes that were sliced
// from one; which of them it is follows from the rank that saved it.
int64_t FirstPlace(const std::vector<Axis>& axes, const std::vector<int64_t>& list,
                   const PickleValue* rank) {
  if (!rank || !rank->integer()) return 0;
  const auto found = std::ranges::find(list, *rank->integer());
  if (found == list.end()) return 0;
  const int64_t own = found - list.begin();
  int64_t first = own;
  for (const Axis& axis : axes)
    if (axis.stride > 0 && axis.size > 0) first -= own / axis.stride % axis.size * axis.stride;
  return std::max<int64_t>(first, 0);
}

// The rank at each place, from the sizes and strides of the axes over a list of ranks.
Result<std::vector<int64_t>> RanksAt(const std::vector<Axis>& axes,
                                     const std::vector<int64_t>& list, int64_t first) {
  std::vector<int64_t> places = {first};
  for (const Axis& axis : axes) {
    if (axis.size < 1 || axis.stride < 0 || axis.stride > kMaxMeshRanks ||
        static_cast<int64_t>(places.size()) > kMaxMeshRanks / axis.size)
      return Corrupt("an axis of a mesh of size {} and stride {}", axis.size, axis.stride);
    std::vector<int64_t> next;
    for (const int64_t place : places)
      for (int64_t i = 0; i < axis.size; ++i) next.push_back(place + i * axis.stride);
    places = std::move(next);
  }
  for (int64_t& place : places) {
    if (place >= static_cast<int64_t>(list.size()))
      return Corrupt("a mesh asks for number {} of {} ranks", place, list.size());
    place = list[static_cast<size_t>(place)];
  }
  return places;
}

std::vector<std::string> TextsIn(const PickleValue* value) {
  std::vector<std::string> texts;
  if (!value || !value->list()) return texts;
  for (const PickleValue& item : *value->list()) {
    if (!item.string()) return {};
    texts.push_back(*item.string());
  }
  return texts;
}

// (tag, ranks, name) of each dimension, up to 2.7; only the names after that.
std::vector<std::string> GroupsIn(const PickleValue& state) {
  const PickleValue* infos = state.Find("_dim_group_infos");
  if (!infos || !infos->list()) return TextsIn(state.Find("_dim_group_names"));
  std::vector<std::string> names;
  for (const PickleValue& info : *infos->list()) {
    if (!info.list() || info.list()->size() != 3 || !info.list()->back().string()) return {};
    names.push_back(*info.list()->back().string());
  }
  return names;
}

}  // namespace

std::optional<Shape> DeviceMesh::PlaceOf(int64_t rank) const {
  const auto found = std::ranges::find(ranks, rank);
  if (found == ranks.end()) return std::nullopt;
  int64_t at = found - ranks.begin();
  Shape place(shape.size(), 0);
  for (size_t d = shape.size(); d-- > 0; at /= shape[d]) place[d] = at % shape[d];
  return place;
}

bool IsOf(const torch::PickleRecord& record, std::string_view class_name) {
  return record.name.ends_with(class_name) && record.name.size() > class_name.size() &&
         record.name[record.name.size() - class_name.size() - 1] == '.';
}

const PickleValue* StateOf(const PickleValue* value, std::string_view class_name) {
  const torch::PickleRecord* record = value ? value->record() : nullptr;
  const bool good = record && IsOf(*record, class_name) && record->state && record->state->dict();
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

Result<DeviceMesh> ReadMesh(const torch::Archive& archive, const PickleValue& state) {
  DeviceMesh mesh;
  if (const PickleValue* tensor = state.Find("mesh")) {
    NXDKIT_ASSIGN(mesh.ranks, RanksIn(archive, tensor));
    mesh.shape = archive.tensors.at(tensor->tensor()->index).shape;
    mesh.form = state.Find("_dim_group_infos") ? MeshForm::kGroupInfos : MeshForm::kGroupNames;
  } else {
    const PickleValue* layout = StateOf(state.Find("_layout"), "_MeshLayout");
    if (!layout) return Unsupported("a mesh in a form that none of torch 2.4 to 2.15 saves");
    NXDKIT_ASSIGN(const std::vector<Axis> axes, AxesOf(*layout));
    NXDKIT_ASSIGN(const std::vector<int64_t> list, RanksIn(archive, state.Find("_rank_map")));
    NXDKIT_ASSIGN(mesh.ranks, RanksAt(axes, list, FirstPlace(axes, list, state.Find("_rank"))));
    for (const Axis& axis : axes) mesh.shape.push_back(axis.size);
    mesh.form = layout->Find("axes") ? MeshForm::kAxes : MeshForm::kLayout;
  }
  const PickleValue* device = FindEither(state, "device_type", "_device_type");
  if (device && device->string()) mesh.device = *device->string();
  mesh.names = TextsIn(FindEither(state, "mesh_dim_names", "_mesh_dim_names"));
  mesh.coordinate = ShapeIn(state.Find("_coordinate_on_dim"));
  mesh.groups = GroupsIn(state);
  if (mesh.shape.empty()) return Corrupt("a mesh without dimensions");
  std::vector<int64_t> sorted = mesh.ranks;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end())
    return Corrupt("a mesh that has a rank twice");
  if (mesh.coordinate && mesh.coordinate->size() != mesh.shape.size())
    return Corrupt("a place {} in a mesh of shape {}", ShapeText(*mesh.coordinate),
                   ShapeText(mesh.shape));
  return mesh;
}

}  // namespace nxdkit::dtensor
