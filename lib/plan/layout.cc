#include "lib/plan/layout.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/errors.h"
#include "lib/plan/box_tree.h"

namespace nxdkit {

int64_t Box::Volume() const {
  int64_t volume = 1;
  for (int64_t e : extent) volume *= e;
  return volume;
}

Box WholeBox(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

bool Meet(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.lo.size(); ++d)
    if (a.lo[d] + a.extent[d] <= b.lo[d] || b.lo[d] + b.extent[d] <= a.lo[d]) return false;
  return true;
}

std::optional<Box> Intersect(const Box& a, const Box& b) {
  Box out{Shape(a.lo.size()), Shape(a.lo.size())};
  for (size_t d = 0; d < a.lo.size(); ++d) {
    const int64_t lo = std::max(a.lo[d], b.lo[d]);
    const int64_t hi = std::min(a.lo[d] + a.extent[d], b.lo[d] + b.extent[d]);
    if (hi <= lo) return std::nullopt;
    out.lo[d] = lo;
    out.extent[d] = hi - lo;
  }
  return out;
}

std::vector<Box> Subtract(const Box& a, const Box& b) {
  const std::optional<Box> common = Intersect(a, b);
  if (!common) return {a};
  std::vector<Box> rest;
  Box core = a;  // shrinks to the intersection, one face at a time
  for (size_t d = 0; d < a.lo.size(); ++d) {
    const int64_t below = common->lo[d] - core.lo[d];
    const int64_t above = core.lo[d] + core.extent[d] - common->lo[d] - common->extent[d];
    if (below > 0) {
      Box slab = core;
      slab.extent[d] = below;
      rest.push_back(std::move(slab));
    }
    if (above > 0) {
      Box slab = core;
      slab.lo[d] = common->lo[d] + common->extent[d];
      slab.extent[d] = above;
      rest.push_back(std::move(slab));
    }
    core.lo[d] = common->lo[d];
    core.extent[d] = common->extent[d];
  }
  return rest;
}

std::vector<Box> RangeBoxes(const Shape& shape, int64_t first, int64_t end) {
  if (shape.empty()) return {WholeBox(shape)};
  const Shape strides = RowMajorStrides(shape);
  std::vector<Box> boxes;
  for (int64_t at = first; at < end;) {
    size_t dim = 0;
    while (at % strides[dim] != 0 || at + strides[dim] > end) ++dim;  // ends: the last stride is 1
    Box box = WholeBox(shape);
    for (size_t d = 0; d <= dim; ++d) {
      box.lo[d] = at / strides[d] % shape[d];
      box.extent[d] = 1;
    }
    box.extent[dim] = std::min((end - at) / strides[dim], shape[dim] - box.lo[dim]);
    at += box.extent[dim] * strides[dim];
    boxes.push_back(std::move(box));
  }
  return boxes;
}

std::vector<ElementRange> ChunkRanges(const Shape& shape, int64_t element_bytes, uint64_t bytes) {
  const int64_t volume = WholeBox(shape).Volume();
  if (volume == 0) return {};
  if (volume * element_bytes <= static_cast<int64_t>(bytes)) return {{0, volume}};
  const Shape strides = RowMajorStrides(shape);
  size_t dim = 0;
  while (dim + 1 < shape.size() && strides[dim] * element_bytes > static_cast<int64_t>(bytes))
    ++dim;
  const int64_t rows =
      std::max<int64_t>(1, static_cast<int64_t>(bytes) / (strides[dim] * element_bytes));
  const int64_t slab = shape[dim] * strides[dim];  // no chunk goes beyond one
  std::vector<ElementRange> chunks;
  for (int64_t begin = 0; begin < volume; begin += slab)
    for (int64_t row = 0; row < shape[dim]; row += rows)
      chunks.push_back(
          {begin + row * strides[dim], begin + std::min(row + rows, shape[dim]) * strides[dim]});
  return chunks;
}

Result<std::optional<std::pair<size_t, size_t>>> FindOverlap(const std::vector<Box>& boxes) {
  std::vector<const Box*> all;
  for (const Box& box : boxes) all.push_back(&box);
  const BoxTree tree(std::move(all));
  BoxWork work(boxes.size());
  for (size_t i = 0; i < boxes.size(); ++i) {
    // The box itself is among the boxes found. Any other one, before or after it, ends the search:
    // a box that meets thousands is looked up once.
    for (const uint32_t other : tree.Meeting(boxes[i], &work))
      if (other != i)
        return std::optional(std::pair(std::max<size_t>(i, other), std::min<size_t>(i, other)));
    if (work.is_used_up())
      return Unsupported(
          "it takes too long to find out whether {} boxes overlap: each extends over the places of "
          "very many others",
          boxes.size());
  }
  return std::optional<std::pair<size_t, size_t>>();
}

std::string BoxText(const Box& box) {
  std::string text = "[";
  for (size_t d = 0; d < box.lo.size(); ++d)
    text += fmt::format("{}{}:{}", d ? ", " : "", box.lo[d], box.lo[d] + box.extent[d]);
  return text + "]";
}

namespace {

std::vector<uint8_t> IdentityAxes(size_t rank) {
  std::vector<uint8_t> axes(rank);
  for (size_t d = 0; d < rank; ++d) axes[d] = static_cast<uint8_t>(d);
  return axes;
}

// Grows the last piece when the new one continues it along `dim`, logically and in storage.
bool Continues(const TensorLayout& tensor, uint32_t param, size_t dim, int64_t from, int64_t at) {
  if (tensor.pieces.empty()) return false;
  const Piece& last = tensor.pieces.back();
  return last.param == param && last.logical.lo[dim] + last.logical.extent[dim] == from &&
         last.stored_lo[dim] + last.logical.extent[dim] == at;
}

void AddSlice(TensorLayout& tensor, uint32_t param, const Shape& shape, size_t dim, int64_t from,
              int64_t count, int64_t at) {
  if (count == 0) return;
  if (Continues(tensor, param, dim, from, at)) {
    tensor.pieces.back().logical.extent[dim] += count;
    return;
  }
  AddWhole(tensor, param, shape);
  Piece& piece = tensor.pieces.back();
  piece.logical.lo[dim] = from;
  piece.logical.extent[dim] = count;
  piece.stored_lo[dim] = at;
}

Error LayoutError(const TensorLayout& tensor, std::string what) {
  return Error(Errc::kInternal, "layout: " + std::move(what)).on(tensor.name);
}

bool Inside(const Box& box, const Shape& shape) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (box.lo[d] < 0 || box.extent[d] < 0 || box.lo[d] + box.extent[d] > shape[d]) return false;
  return true;
}

Status CheckPiece(const std::vector<LogicalTensor>& params, const TensorLayout& tensor,
                  const Piece& piece) {
  if (piece.param >= params.size()) return LayoutError(tensor, "piece of an unknown parameter");
  const LogicalTensor& param = params[piece.param];
  if (piece.logical.lo.size() != param.shape.size() || piece.axes.size() != param.shape.size())
    return LayoutError(tensor, fmt::format("piece of {} has the wrong rank", param.name));
  if (piece.stored_lo.size() != tensor.shape.size())
    return LayoutError(tensor, "piece has the wrong stored rank");
  std::vector<bool> taken(tensor.shape.size(), false);
  for (const uint8_t axis : piece.axes) {
    if (axis >= taken.size() || taken[axis])
      return LayoutError(
          tensor, fmt::format("axes of a piece of {} are not distinct dimensions", param.name));
    taken[axis] = true;
  }
  if (!Inside(piece.logical, param.shape))
    return LayoutError(tensor, fmt::format("piece {} is outside of {} {}", BoxText(piece.logical),
                                           param.name, ShapeText(param.shape)));
  return OkStatus();
}

}  // namespace

void AddRows(TensorLayout& tensor, uint32_t param, const Shape& shape, int64_t row, int64_t rows,
             int64_t at) {
  AddSlice(tensor, param, shape, 0, row, rows, at);
}

void AddColumns(TensorLayout& tensor, uint32_t param, const Shape& shape, int64_t column,
                int64_t columns, int64_t at) {
  AddSlice(tensor, param, shape, 1, column, columns, at);
}

void AddWhole(TensorLayout& tensor, uint32_t param, const Shape& shape) {
  tensor.pieces.push_back(
      {param, WholeBox(shape), Shape(shape.size(), 0), IdentityAxes(shape.size())});
}

TensorLayout WholeTensor(std::string name, uint32_t file, uint32_t param, const Shape& shape) {
  TensorLayout tensor{std::move(name), file, shape, std::nullopt, {}, {}};
  AddWhole(tensor, param, shape);
  return tensor;
}

void AddZeros(TensorLayout& tensor, int dim, int64_t at, int64_t count) {
  if (count == 0) return;
  Fill fill{WholeBox(tensor.shape), 0};
  fill.stored.lo[dim] = at;
  fill.stored.extent[dim] = count;
  tensor.fills.push_back(std::move(fill));
}

void TransposeStored(TensorLayout& tensor) {
  NXDKIT_CHECK(tensor.shape.size() >= 2);
  const size_t last = tensor.shape.size() - 1;
  const auto swap = [last](Shape& list) { std::swap(list[last], list[last - 1]); };
  swap(tensor.shape);
  for (Piece& piece : tensor.pieces) {
    swap(piece.stored_lo);
    for (uint8_t& axis : piece.axes)
      if (axis + 1u >= last) axis = static_cast<uint8_t>(axis == last ? last - 1 : last);
  }
  for (Fill& fill : tensor.fills) {
    swap(fill.stored.lo);
    swap(fill.stored.extent);
  }
}

TensorLayout CutBox(const TensorLayout& tensor, const Box& box) {
  TensorLayout cut{tensor.name, tensor.file, box.extent, tensor.dtype, {}, {}};
  for (const Piece& piece : tensor.pieces) {
    const Box stored = StoredBox(piece, tensor.shape.size());
    const std::optional<Box> part = Intersect(stored, box);
    if (!part) continue;
    Piece clipped = piece;
    for (size_t d = 0; d < piece.axes.size(); ++d) {
      const uint8_t axis = piece.axes[d];
      clipped.logical.lo[d] += part->lo[axis] - stored.lo[axis];
      clipped.logical.extent[d] = part->extent[axis];
    }
    for (size_t d = 0; d < box.lo.size(); ++d) clipped.stored_lo[d] = part->lo[d] - box.lo[d];
    cut.pieces.push_back(std::move(clipped));
  }
  for (const Fill& fill : tensor.fills) {
    std::optional<Box> part = Intersect(fill.stored, box);
    if (!part) continue;
    for (size_t d = 0; d < box.lo.size(); ++d) part->lo[d] -= box.lo[d];
    cut.fills.push_back({*std::move(part), fill.value});
  }
  return cut;
}

TensorLayout CutRows(const TensorLayout& tensor, int64_t row, int64_t rows) {
  NXDKIT_CHECK(!tensor.shape.empty());
  Box window = WholeBox(tensor.shape);
  window.lo[0] = row;
  window.extent[0] = rows;
  TensorLayout cut = CutBox(tensor, window);
  const int64_t stored_rows = std::clamp<int64_t>(tensor.shape[0] - row, 0, rows);
  AddZeros(cut, 0, stored_rows, rows - stored_rows);
  return cut;
}

std::vector<uint32_t> ParamsOf(const TensorLayout& tensor) {
  std::vector<uint32_t> params;
  for (const Piece& piece : tensor.pieces)
    if (std::ranges::find(params, piece.param) == params.end()) params.push_back(piece.param);
  return params;
}

Box StoredBox(const Piece& piece, size_t stored_rank) {
  Box box{piece.stored_lo, Shape(stored_rank, 1)};
  for (size_t d = 0; d < piece.axes.size(); ++d)
    box.extent[piece.axes[d]] = piece.logical.extent[d];
  return box;
}

Status CheckLayout(const std::vector<LogicalTensor>& params, const Layout& layout) {
  for (const TensorLayout& tensor : layout.tensors) {
    if (tensor.file >= layout.files.size()) return LayoutError(tensor, "no such file");
    std::vector<Box> boxes;
    for (const Piece& piece : tensor.pieces) {
      NXDKIT_TRY(CheckPiece(params, tensor, piece));
      boxes.push_back(StoredBox(piece, tensor.shape.size()));
    }
    for (const Fill& fill : tensor.fills) boxes.push_back(fill.stored);
    int64_t covered = 0;
    for (size_t i = 0; i < boxes.size(); ++i) {
      if (!Inside(boxes[i], tensor.shape))
        return LayoutError(tensor, fmt::format("{} is outside of the stored shape {}",
                                               BoxText(boxes[i]), ShapeText(tensor.shape)));
      covered += boxes[i].Volume();
    }
    NXDKIT_ASSIGN(const auto pair, FindOverlap(boxes));
    if (pair)
      return LayoutError(tensor, fmt::format("{} and {} overlap", BoxText(boxes[pair->first]),
                                             BoxText(boxes[pair->second])));
    const int64_t all = WholeBox(tensor.shape).Volume();
    if (covered != all)
      return LayoutError(tensor, fmt::format("{} of {} elements are covered", covered, all));
  }
  return OkStatus();
}

}  // namespace nxdkit
