#include "formats/dcp/layout.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "formats/dtensor/sharding.h"
#include "formats/models/rank_tensors.h"
#include "formats/models/view.h"
#include "lib/base/errors.h"

namespace nxdkit::dcp {
namespace {

using models::Model;
using models::Param;
using models::Role;

// The modules of transformers 5, as texts of families name that spelling.
constexpr std::string_view kFusedSpelling = "memory";

// Vectors are whole on all ranks.
int TpDimOf(const Param& param) { return param.shape.size() < 2 ? models::kWhole : param.CutDim(); }

// Whole heads, of each its rows in pairs.
GlobalTensor InPairs(const Model& model, uint32_t param, std::string name) {
  const Shape& shape = model.params[param].shape;
  const int64_t half = model.config.head_dim / 2;
  TensorLayout layout = models::EmptyTensor(std::move(name), {shape[0] / 2, 2, shape[1]});
  for (int64_t row = 0; row < shape[0]; row += half)
    layout.pieces.push_back({param,
                             {{row, 0}, {half, shape[1]}},
                             {row / (2 * half) * half, row / half % 2, 0},
                             {0, 2}});
  return {std::move(layout), shape, 0};
}

// Its name and shape, and not where its elements lie.
GlobalTensor Unlaid(const Param& param, std::string name) {
  return {models::EmptyTensor(std::move(name), param.shape), param.shape, TpDimOf(param)};
}

GlobalTensor AsItIs(const Model& model, TensorLayout layout) {
  const Param& param = model.params[layout.pieces.front().param];
  const bool stacked = layout.shape.size() > param.shape.size();
  const int dim = TpDimOf(param) + (stacked ? 1 : 0);
  Shape shape = layout.shape;
  return {std::move(layout), std::move(shape), dim};
}

// The whole parameters, under TorchTitan's names.
Result<std::vector<TensorLayout>> TitanLayouts(const Model& model, Style style) {
  auto layouts =
      models::SpelledTensors(model, style == Style::kTitan2025 ? "torchtitan_2025" : "torchtitan");
  if (layouts.ok() || layouts.error().code() != Errc::kUnsupported) return layouts;
  return Unsupported("TorchTitan's {} models have no such parameter",
                     model.config.family->model_type)
      .on(layouts.error().tensor())
      .hint("--style hf keeps the names of transformers");
}

Result<std::vector<GlobalTensor>> TitanTensors(const Model& model, Style style,
                                               const HasTensor& stored) {
  const models::Family& family = *model.config.family;
  if (family.titan == models::TitanRope::kNone)
    return Unsupported("TorchTitan has no {} models", family.model_type)
        .hint("--style hf keeps the names of transformers");
  const bool pairs = family.titan == models::TitanRope::kPairs;
  if (pairs && model.config.head_dim % 2 != 0)
    return Unsupported("head_dim {} is odd: rope turns rows in pairs", model.config.head_dim);
  NXDKIT_ASSIGN(std::vector<TensorLayout> layouts, TitanLayouts(model, style));
  std::vector<GlobalTensor> tensors;
  for (TensorLayout& layout : layouts) {
    const uint32_t i = layout.pieces.front().param;
    const Param& param = model.params[i];
    const bool turned = param.role == Role::kQuery || param.role == Role::kKey;
    if (!pairs || !turned)
      tensors.push_back(AsItIs(model, std::move(layout)));
    else
      tensors.push_back(!stored || stored(layout.name, param.shape)
                            ? InPairs(model, i, std::move(layout.name))
                            : Unlaid(param, std::move(layout.name)));
  }
  return tensors;
}

std::vector<GlobalTensor> AsTheyAre(const Model& model, std::vector<TensorLayout> layouts) {
  std::vector<GlobalTensor> tensors;
  for (TensorLayout& layout : layouts) tensors.push_back(AsItIs(model, std::move(layout)));
  return tensors;
}

// A box of the rows in pairs. There are two pieces for every head, one after the other, and a chunk
// looks at its own: a hostile file has as many chunks as heads.
TensorLayout CutPairs(const TensorLayout& layout, const Box& box) {
  const auto first = [](const Piece& piece) { return piece.stored_lo[0]; };
  const auto end = [](const Piece& piece) { return piece.stored_lo[0] + piece.logical.extent[0]; };
  const auto from = std::ranges::upper_bound(layout.pieces, box.lo[0], {}, end);
  const auto to = std::ranges::lower_bound(layout.pieces, box.lo[0] + box.extent[0], {}, first);
  TensorLayout near{layout.name, layout.file, layout.shape, layout.dtype, {}, {}};
  if (from < to) near.pieces.assign(from, to);
  return CutBox(near, box);
}

// A chunk that begins or ends within a pair of rows: each row by itself.
TensorLayout CutRowByRow(const GlobalTensor& tensor, const Box& box) {
  const int64_t first = box.lo[0];
  const int64_t end = first + box.extent[0];
  const int64_t pair = first / 2;
  const Box pairs = {{pair, 0, box.lo[1]}, {(end + 1) / 2 - pair, 2, box.extent[1]}};
  TensorLayout cut{tensor.layout.name, tensor.layout.file, box.extent, tensor.layout.dtype, {}, {}};
  for (const Piece& piece : CutPairs(tensor.layout, pairs).pieces)
    for (int64_t i = 0; i < piece.logical.extent[0]; ++i) {
      const int64_t row = 2 * (pair + piece.stored_lo[0] + i) + piece.stored_lo[1];
      if (row < first || row >= end) continue;
      const Box logical = {{piece.logical.lo[0] + i, piece.logical.lo[1]},
                           {1, piece.logical.extent[1]}};
      cut.pieces.push_back({piece.param, logical, {row - first, piece.stored_lo[2]}, {0, 1}});
    }
  std::ranges::sort(cut.pieces, {}, &Piece::stored_lo);
  return cut;
}

Box CutAlong(int dim, Box box, int parts, int index) {
  const auto d = static_cast<size_t>(dim);
  const dtensor::Run part = dtensor::PartOf({box.lo[d], box.extent[d]}, parts, index);
  box.lo[d] = part.first;
  box.extent[d] = part.count;
  return box;
}

}  // namespace

Result<std::vector<GlobalTensor>> ModelTensors(const Model& model, Style style,
                                               const HasTensor& stored) {
  if (style == Style::kHf) return AsTheyAre(model, models::HfTensors(model, true));
  if (style == Style::kHfFused) {
    const bool differs = models::HasView(*model.config.family, kFusedSpelling);
    NXDKIT_ASSIGN(std::vector<TensorLayout> fused,
                  models::SpelledTensors(model, differs ? kFusedSpelling : ""));
    return AsTheyAre(model, std::move(fused));
  }
  return TitanTensors(model, style, stored);
}

TensorLayout CutChunk(const GlobalTensor& tensor, const Box& box) {
  if (!tensor.has_pairs()) return CutBox(tensor.layout, box);
  if (box.lo[0] % 2 != 0 || box.extent[0] % 2 != 0) return CutRowByRow(tensor, box);
  return CutPairs(tensor.layout,
                  {{box.lo[0] / 2, 0, box.lo[1]}, {box.extent[0] / 2, 2, box.extent[1]}});
}

StoredTensor SeenAs(StoredTensor chunk, const Shape& shape) {
  if (chunk.shape.size() == shape.size()) return chunk;
  NXDKIT_CHECK(chunk.shape.size() == 2 && shape.size() == 3);
  chunk.strides = {2 * chunk.strides[0], chunk.strides[0], chunk.strides[1]};
  chunk.shape = shape;
  return chunk;
}

std::vector<RankBox> CutOver(const GlobalTensor& tensor, const Mesh& mesh) {
  const Box whole = WholeBox(tensor.shape);
  if (tensor.shape.empty()) return {{0, whole}};
  std::vector<RankBox> boxes;
  for (int d = 0; d < mesh.dp; ++d)
    for (int t = 0; t < mesh.tp; ++t) {
      if (tensor.tp_dim < 0 && t > 0) continue;
      Box box = tensor.tp_dim < 0 ? whole : CutAlong(tensor.tp_dim, whole, mesh.tp, t);
      box = CutAlong(0, std::move(box), mesh.dp, d);
      if (box.Volume() > 0) boxes.push_back({d * mesh.tp + t, std::move(box)});
    }
  return boxes;
}

}  // namespace nxdkit::dcp
