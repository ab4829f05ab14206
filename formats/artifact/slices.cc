#include "formats/artifact/slices.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "lib/system/paths.h"

namespace nxdkit::artifact {
namespace {

// The dimensions of a tensor from the largest stride to the smallest.
std::vector<size_t> Outermost(const StoredTensor& stored) {
  std::vector<size_t> dims(stored.shape.size());
  std::iota(dims.begin(), dims.end(), size_t{0});
  std::ranges::stable_sort(dims, std::ranges::greater(),
                           [&](size_t d) { return stored.strides[d]; });
  return dims;
}

// The index of an element that is `start` elements behind the first; nullopt if there is none.
std::optional<Shape> IndexAt(const StoredTensor& stored, int64_t start) {
  Shape index(stored.shape.size(), 0);
  for (const size_t d : Outermost(stored)) {
    if (stored.strides[d] == 0) continue;
    index[d] = start / stored.strides[d];
    start %= stored.strides[d];
    if (index[d] >= stored.shape[d]) return std::nullopt;
  }
  return start == 0 ? std::optional(index) : std::nullopt;
}

std::string RankLabel(const LayoutFile& file, bool with_pp, bool with_ep) {
  std::string label = fmt::format("tp {}", file.tp_rank);
  if (with_pp) label += fmt::format(", pp {}", file.pp_rank);
  if (with_ep) label += fmt::format(", ep {}", file.ep_rank);
  return label;
}

bool AllDiffer(const std::vector<std::string>& labels) {
  return std::set(labels.begin(), labels.end()).size() == labels.size();
}

}  // namespace

uint64_t TensorSlices::target_bytes() const {
  uint64_t bytes = 0;
  for (const SliceEnd& end : targets) bytes += BoxBytes(end.dtype, end.shape);
  return bytes;
}

uint64_t BoxBytes(Dtype dtype, const Shape& extent) {
  const Result<uint64_t> bytes = PackedBytes(dtype, extent);
  return bytes.ok() ? *bytes : 0;
}

std::optional<std::pair<int64_t, int64_t>> HeadsIn(const LogicalTensor& param, const Box& logical) {
  if (param.head_rows <= 0) return std::nullopt;
  const auto dim = static_cast<size_t>(param.head_dim);
  return std::pair(logical.lo[dim] / param.head_rows,
                   (logical.lo[dim] + logical.extent[dim] - 1) / param.head_rows);
}

std::vector<std::string> FileLabels(const std::vector<LayoutFile>& files) {
  const auto any = [&](int64_t LayoutFile::*rank) {
    return std::ranges::any_of(files, [&](const LayoutFile& file) { return file.*rank > 0; });
  };
  const auto labels = [&](const auto& label) {
    std::vector<std::string> all;
    for (const LayoutFile& file : files) all.push_back(label(file));
    return all;
  };
  const bool ranked =
      std::ranges::all_of(files, [](const LayoutFile& file) { return file.tp_rank >= 0; });
  const bool with_pp = any(&LayoutFile::pp_rank), with_ep = any(&LayoutFile::ep_rank);
  const auto ranks =
      labels([&](const LayoutFile& file) { return RankLabel(file, with_pp, with_ep); });
  if (ranked && AllDiffer(ranks)) return ranks;
  const auto names =
      labels([](const LayoutFile& file) { return std::string(BaseName(file.path)); });
  if (AllDiffer(names)) return names;
  return labels([](const LayoutFile& file) { return file.path; });
}

Box LogicalBoxOf(const Piece& piece, const CopyOp& op) {
  Box logical = piece.logical;
  for (size_t d = 0; d < piece.axes.size(); ++d) {
    logical.lo[d] += op.box.lo[piece.axes[d]] - piece.stored_lo[piece.axes[d]];
    logical.extent[d] = op.box.extent[piece.axes[d]];
  }
  return logical;
}

Box SourceBoxOf(const CopyOp& op, const StoredTensor& stored) {
  const std::optional<Shape> first = IndexAt(stored, op.start);
  if (!first) return WholeBox(stored.shape);
  Box box{*first, Shape(stored.shape.size(), 1)};
  for (size_t d = 0; d < op.box.extent.size(); ++d) {
    if (op.box.extent[d] == 1) continue;
    size_t s = 0;
    while (s < stored.shape.size() &&
           (stored.strides[s] != op.strides[d] || stored.shape[s] == 1 || box.extent[s] > 1))
      ++s;
    if (s == stored.shape.size() || op.box.extent[d] > stored.shape[s] - box.lo[s])
      return WholeBox(stored.shape);
    box.extent[s] = op.box.extent[d];
  }
  return box;
}

std::vector<TensorSlices> HeldSlices(const BoundArtifact& bound) {
  std::vector<TensorSlices> all(bound.params.size());
  for (size_t t = 0; t < bound.bound.layout.tensors.size(); ++t) {
    const TensorLayout& tensor = bound.bound.layout.tensors[t];
    const StoredTensor& stored = bound.bound.stored[t];
    for (const Piece& piece : tensor.pieces) {
      TensorSlices& held = all[piece.param];
      if (held.sources.empty()) {
        const LogicalTensor& param = bound.params[piece.param];
        held.name = param.name;
        held.sources = {{param.name, 0, stored.dtype, param.shape}};
        held.params = {param};
      }
      const SliceEnd end{tensor.name, tensor.file, stored.dtype, tensor.shape};
      if (held.targets.empty() || !(held.targets.back() == end)) held.targets.push_back(end);
      held.slices.push_back({0, static_cast<uint32_t>(held.targets.size() - 1), piece.logical,
                             StoredBox(piece, tensor.shape.size()), 0, piece.logical});
    }
  }
  std::erase_if(all, [](const TensorSlices& held) { return held.targets.empty(); });
  return all;
}

}  // namespace nxdkit::artifact
