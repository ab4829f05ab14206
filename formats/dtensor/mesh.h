// The mesh of ranks on which a distributed tensor is placed, as each release of torch pickles it.
// Source: torch/distributed/device_mesh.py and _mesh_layout.py of 2.4 to 2.15; files of each of
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/torch/archive.h"
#include "formats/torch/pickle_value.h"
#include "lib/base/error.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::dtensor {

// The saved form of a mesh: private to its release, and other releases cannot resume from it.
enum class MeshForm : uint8_t {
  kGroupInfos,  // 2.4 to 2.7: a tensor of ranks, _dim_group_infos
  kGroupNames,  // 2.8 and 2.9: the same, _dim_group_names
  kLayout,      // 2.10 to 2.12: _MeshLayout of shape and stride
  kAxes,        // 2.13 on: _MeshLayout of axes
};

struct DeviceMesh {
  std::string device;               // "cuda"
  Shape shape;                      // ranks along each dimension
  std::vector<int64_t> ranks;       // ranks of the run, row-major
  std::vector<std::string> names;   // of the dimensions, or none
  std::optional<Shape> coordinate;  // of the rank that saved it
  std::vector<std::string> groups;  // process groups by name, one for each dimension
  MeshForm form = MeshForm::kGroupInfos;
  bool operator==(const DeviceMesh&) const = default;

  // The place of a rank of the run in the mesh; nullopt if it is not in it.
  std::optional<Shape> PlaceOf(int64_t rank) const;
};

inline constexpr int64_t kMaxMeshRanks = 100'000;

// Reads the state of a DeviceMesh's record. kUnsupported for an unknown form, or an axis of several
// parts; kCorrupt for contradictions.
Result<DeviceMesh> ReadMesh(const torch::Archive& archive, const torch::PickleValue& state);

// The integers of a list, a tuple or a torch.Size; nullopt for anything else.
std::optional<Shape> ShapeIn(const torch::PickleValue* value);
// The state, a dict, of a record whose class has this name in its module; nullptr for anything
// else.
const torch::PickleValue* StateOf(const torch::PickleValue* value, std::string_view class_name);
// Whether the record's class has this name in its module.
bool IsOf(const torch::PickleRecord& record, std::string_view class_name);

}  // namespace nxdkit::dtensor
