#include "formats/fsdp/write_pickle.h"

#include <memory>
#include <utility>

#include "formats/torch/pickle_globals.h"
#include "lib/base/text.h"

namespace nxdkit::fsdp {
namespace {

using dtensor::MeshForm;
using torch::GlobalName;
using torch::PickleDict;
using torch::PickleList;
using torch::PickleRecord;
using torch::PickleValue;

constexpr char kMesh[] = "torch.distributed.device_mesh.DeviceMesh";
constexpr char kMeshLayout[] = "torch.distributed._mesh_layout._MeshLayout";
constexpr char kFlatLayout[] = "torch.distributed._mesh_layout._FlatLayout";
constexpr char kDefaultGroup[] = "0";

// The classes, with the modules of a release.
struct Classes {
  const char* dtensor;
  const char* spec;
  const char* meta;
  const char* shard;
};
constexpr Classes kNow = {torch::kDTensorClass,
                          "torch.distributed.tensor._dtensor_spec.DTensorSpec",
                          "torch.distributed.tensor._dtensor_spec.TensorMeta",
                          "torch.distributed.tensor.placement_types.Shard"};
constexpr Classes kBefore25 = {"torch.distributed._tensor.api.DTensor",
                               "torch.distributed._tensor.placement_types.DTensorSpec",
                               "torch.distributed._tensor.placement_types.TensorMeta",
                               "torch.distributed._tensor.placement_types.Shard"};

PickleValue Call(std::string_view name, PickleList arguments) {
  auto record = std::make_shared<PickleRecord>();
  record->name = name;
  record->called = true;
  record->arguments = std::move(arguments);
  return {std::shared_ptr<const PickleRecord>(std::move(record))};
}

// An object made without __init__, with this state; arguments of a tuple by name.
PickleValue Object(std::string_view name, std::optional<PickleDict> state,
                   PickleList arguments = {}) {
  auto record = std::make_shared<PickleRecord>();
  record->name = name;
  record->arguments = std::move(arguments);
  if (state) record->state = PickleValue::MakeDict(*std::move(state));
  return {std::shared_ptr<const PickleRecord>(std::move(record))};
}

PickleValue None() { return {PickleValue::None{}}; }
PickleValue Tuple(const Shape& numbers) {
  PickleList items;
  for (const int64_t number : numbers) items.push_back({number});
  return PickleValue::MakeTuple(std::move(items));
}
PickleValue List(const Shape& numbers) {
  PickleList items;
  for (const int64_t number : numbers) items.push_back({number});
  return PickleValue::MakeList(std::move(items));
}
PickleValue Text(const char* text) { return {std::string(text)}; }

Shape AllRanks(int world) {
  Shape ranks;
  for (int rank = 0; rank < world; ++rank) ranks.push_back(rank);
  return ranks;
}

}  // namespace

std::optional<Release> ReleaseFromName(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos || name.substr(0, dot) != "2") return std::nullopt;
  std::string_view rest = name.substr(dot + 1);
  rest = rest.substr(0, rest.find('.'));  // 2.6.0
  const auto minor = ParseNumber<int>(rest);
  if (!minor || *minor < 4 || *minor > 15) return std::nullopt;
  if (*minor == 4) return Release{MeshForm::kGroupInfos, true};
  if (*minor < 10) return Release{MeshForm::kGroupInfos, false};
  return Release{*minor < 13 ? MeshForm::kLayout : MeshForm::kAxes, false};
}

// The state for 2.5 to 2.9 has everything that each of them asks for; each ignores the rest.
Release ReleaseOf(MeshForm form) {
  return {form == MeshForm::kGroupNames ? MeshForm::kGroupInfos : form, false};
}

std::string_view LoadedBy(const Release& release) {
  if (release.before_2_5) return "2.4";
  if (release.form == MeshForm::kLayout) return "2.10 to 2.12";
  return release.form == MeshForm::kAxes ? "2.13 to 2.15" : "2.5 to 2.9";
}

PlacedWriter::PlacedWriter(const Release& release, std::string device, int world, int rank,
                           torch::TensorIndex ranks)
    : release_(release),
      device_(std::move(device)),
      mesh_(MeshState(world, rank, ranks)),
      layout_(Call("torch.serialization._get_layout", {Text("torch.strided")})),
      cpu_(Call("torch.device", {Text("cpu")})) {}

PickleValue PlacedWriter::MeshState(int world, int rank, torch::TensorIndex ranks) const {
  const PickleValue names = PickleValue::MakeTuple({Text("fsdp")});
  const PickleValue groups = PickleValue::MakeList({Text(kDefaultGroup)});
  const Shape all = AllRanks(world);
  if (!is_new()) {
    PickleValue info = PickleValue::MakeTuple({Text("ptd:0"), List(all), Text(kDefaultGroup)});
    return Object(kMesh, PickleDict{{Text("device_type"), {device_}},
                                    {Text("mesh"), {ranks}},
                                    {Text("mesh_dim_names"), names},
                                    {Text("_flatten_mesh_list"), Tuple(all)},
                                    {Text("_parent_mesh"), None()},
                                    {Text("_thread_id"), None()},
                                    {Text("_dim_group_infos"), PickleValue::MakeList({info})},
                                    {Text("_dim_group_names"), groups},
                                    {Text("_coordinate_on_dim"), List({rank})},
                                    {Text("_hash"), None()}});
  }
  PickleDict layout;
  if (release_.form == MeshForm::kAxes) {
    const Shape size = world > 1 ? Shape{world} : Shape{};
    const Shape stride = world > 1 ? Shape{1} : Shape{};
    const PickleValue axis = Object(
        kFlatLayout, PickleDict{{Text("shape"), Tuple(size)}, {Text("stride"), Tuple(stride)}});
    layout = {{Text("axes"), PickleValue::MakeTuple({axis})}};
  } else {
    layout = {{Text("shape"), Tuple({world})}, {Text("stride"), Tuple({1})}};
  }
  return Object(kMesh, PickleDict{{Text("_device_type"), {device_}},
                                  {Text("_layout"), Object(kMeshLayout, std::move(layout))},
                                  {Text("_rank_map"), {ranks}},
                                  {Text("_mesh_dim_names"), names},
                                  {Text("_root_mesh"), None()},
                                  {Text("_preserve_rank_order"), {false}},
                                  {Text("_flatten_rank_map"), Tuple(all)},
                                  {Text("_thread_id"), None()},
                                  {Text("_flatten_mapping"), PickleValue::MakeDict({})},
                                  {Text("_dim_group_names"), groups},
                                  {Text("_rank"), {int64_t{rank}}},
                                  {Text("_coordinate_on_dim"), Tuple({rank})},
                                  {Text("_hash"), None()}});
}

PickleValue PlacedWriter::Tensor(Dtype dtype, const Shape& shape, int64_t dim,
                                 torch::TensorIndex local) const {
  const Classes& classes = release_.before_2_5 ? kBefore25 : kNow;
  const Shape strides = RowMajorStrides(shape);
  PickleDict spec = {
      {Text("mesh"), mesh_},
      {Text("placements"),
       PickleValue::MakeTuple({Object(classes.shard, PickleDict{{Text("dim"), {dim}}})})},
      {Text("tensor_meta"),
       Object(classes.meta, std::nullopt, {{torch::TorchSize{shape}}, Tuple(strides), {dtype}})},
      {Text("_hash"), None()}};
  if (is_new()) {
    PickleValue order = Object("torch.distributed.tensor._dtensor_spec.ShardOrderEntry",
                               std::nullopt, {{dim}, Tuple({0})});
    spec.push_back({Text("shard_order"), PickleValue::MakeTuple({std::move(order)})});
    spec.push_back({Text("use_strided_shard_as_shard_order"), {false}});
  }
  const PickleValue slots = PickleValue::MakeDict(
      {{Text("_local_tensor"), {local}}, {Text("_spec"), Object(classes.spec, std::move(spec))}});
  const PickleValue whole = PickleValue::MakeTuple({{GlobalName{classes.dtensor}},
                                                    {dtype},
                                                    Tuple(shape),
                                                    Tuple(strides),
                                                    {int64_t{0}},
                                                    layout_,
                                                    cpu_,
                                                    {false}});
  return Call(torch::kRebuildFromType, {{GlobalName{torch::kRebuildWrapper}},
                                        {GlobalName{classes.dtensor}},
                                        whole,
                                        PickleValue::MakeTuple({None(), slots})});
}

}  // namespace nxdkit::fsdp
