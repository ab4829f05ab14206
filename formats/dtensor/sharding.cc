#include "formats/dtensor/sharding.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/errors.h"

namespace nxdkit::dtensor {
namespace {

constexpr int64_t kMaxParts = 1024;
constexpr size_t kMaxMeshDims = 8;

int64_t CountOf(const std::vector<Run>& runs) {
  int64_t count = 0;
  for (const Run& run : runs) count += run.count;
  return count;
}

// Walks along the runs once, however many slices are taken.
struct Slicer {
  const std::vector<Run>& runs;
  size_t at = 0;
  int64_t before = 0;  // places in earlier runs

  // Adds the indices at the places [first, first + count) to `to`. `first` must not decrease.
  void Add(int64_t first, int64_t count, std::vector<Run>& to) {
    for (const int64_t end = first + count; first < end && at < runs.size();) {
      const Run& run = runs[at];
      const int64_t run_end = before + run.count;
      if (first >= run_end) {
        before = run_end;
        ++at;
        continue;
      }
      const int64_t part_end = std::min(end, run_end);
      Append({run.first + first - before, part_end - first}, to);
      first = part_end;
    }
  }

  static void Append(const Run& run, std::vector<Run>& to) {
    if (!to.empty() && to.back().first + to.back().count == run.first)
      to.back().count += run.count;
    else
      to.push_back(run);
  }
};

Error TooManyParts() {
  return Unsupported("the rank has more than {} parts of the tensor", kMaxParts);
}

std::vector<Run> Cut(const std::vector<Run>& runs, const Placement& placement, int64_t ranks,
                     int64_t index) {
  std::vector<Run> out;
  const Run all = {0, CountOf(runs)};
  Slicer slicer{runs};
  for (int64_t i = 0; i < placement.split_factor; ++i) {
    const Run part = PartOf(PartOf(all, placement.split_factor, i), ranks, index);
    slicer.Add(part.first, part.count, out);
  }
  return out;
}

}  // namespace

std::string PlacementText(const std::vector<Placement>& placements) {
  std::string text;
  for (const Placement& one : placements) {
    if (!text.empty()) text += ", ";
    if (one.kind == Placement::Kind::kReplicate) text += "Replicate";
    if (one.kind == Placement::Kind::kShard) text += fmt::format("Shard({})", one.dim);
    if (one.kind == Placement::Kind::kStridedShard)
      text += fmt::format("_StridedShard({}, {})", one.dim, one.split_factor);
  }
  return text;
}

Run PartOf(const Run& range, int64_t parts, int64_t index) {
  const int64_t size = range.count / parts + (range.count % parts != 0 ? 1 : 0);
  const int64_t first = size == 0 || index > range.count / size ? range.count : index * size;
  return {range.first + first, std::min(size, range.count - first)};
}

Status CheckSharding(const Sharding& sharding) {
  const auto elements = ElementCount(sharding.shape);
  if (!elements) return Corrupt("the shape {} is not one", ShapeText(sharding.shape));
  if (sharding.mesh.size() != sharding.placements.size() || sharding.mesh.size() > kMaxMeshDims)
    return Corrupt("a mesh of {} dimensions with {} placements", sharding.mesh.size(),
                   sharding.placements.size());
  if (std::ranges::any_of(sharding.mesh, [](int64_t size) { return size < 1; }))
    return Corrupt("a mesh of the shape {}", ShapeText(sharding.mesh));
  for (const Placement& placement : sharding.placements) {
    if (placement.kind == Placement::Kind::kReplicate) continue;
    if (placement.dim < 0 || placement.dim >= static_cast<int64_t>(sharding.shape.size()))
      return Corrupt("a placement cuts dimension {} of the shape {}", placement.dim,
                     ShapeText(sharding.shape));
    if (placement.split_factor < 1) return Corrupt("a split factor of {}", placement.split_factor);
    if (placement.split_factor > kMaxParts)
      return Unsupported("a split factor of {}, the limit is {}", placement.split_factor,
                         kMaxParts);
  }
  return OkStatus();
}

Result<LocalShard> ShardAt(const Sharding& sharding, const Shape& coordinate) {
  NXDKIT_TRY(CheckSharding(sharding));
  if (coordinate.size() != sharding.mesh.size())
    return Corrupt("the place {} in a mesh of shape {}", ShapeText(coordinate),
                   ShapeText(sharding.mesh));
  std::vector<std::vector<Run>> runs;
  for (const int64_t size : sharding.shape) runs.push_back({{0, size}});
  for (size_t d = 0; d < coordinate.size(); ++d) {
    if (coordinate[d] < 0 || coordinate[d] >= sharding.mesh[d])
      return Corrupt("the place {} in a mesh of shape {}", ShapeText(coordinate),
                     ShapeText(sharding.mesh));
    const Placement& placement = sharding.placements[d];
    if (placement.kind == Placement::Kind::kReplicate) continue;
    std::vector<Run>& cut = runs[static_cast<size_t>(placement.dim)];
    cut = Cut(cut, placement, sharding.mesh[d], coordinate[d]);
    if (static_cast<int64_t>(cut.size()) > kMaxParts) return TooManyParts();
  }

  LocalShard out{{}, {{}}};
  for (const std::vector<Run>& dim : runs) {
    out.shape.push_back(CountOf(dim));
    std::vector<Part> parts;
    if (static_cast<int64_t>(out.parts.size() * dim.size()) > kMaxParts) return TooManyParts();
    for (const Part& part : out.parts) {
      int64_t local = 0;
      for (const Run& run : dim) {
        if (run.count == 0) continue;
        Part longer = part;
        longer.box.lo.push_back(run.first);
        longer.box.extent.push_back(run.count);
        longer.local_lo.push_back(local);
        parts.push_back(std::move(longer));
        local += run.count;
      }
    }
    out.parts = std::move(parts);
  }
  return out;
}

}  // namespace nxdkit::dtensor
