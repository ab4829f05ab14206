#include "formats/dcp/titan.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <utility>

#include "formats/models/rank_tensors.h"
#include "formats/models/view.h"
#include "lib/base/errors.h"

namespace nxdkit::dcp {
namespace {

using models::Model;
using models::Role;

constexpr std::string_view kQueryName = ".wq.weight";
constexpr std::string_view kFusedName = ".wqkv.weight";
constexpr std::string_view kBufferName = "moe.expert_bias_E";
constexpr std::string_view kBufferOf2025 = "moe.expert_bias";

const models::Param& FirstParam(const Model& model, const TensorLayout& layout) {
  return model.params[layout.pieces.front().param];
}

// The whole parameters under TorchTitan's names, with rows in Hugging Face's order.
Result<std::vector<TensorLayout>> PlainLayouts(const Model& model, Style style) {
  const models::Family& family = *model.config.family;
  if (family.titan == models::TitanRope::kNone)
    return Unsupported("TorchTitan has no {} models", family.model_type)
        .hint("--style hf keeps the names of transformers");
  if (family.titan == models::TitanRope::kPairs && model.config.head_dim % 2 != 0)
    return Unsupported("head_dim {} is odd: rope turns rows in pairs", model.config.head_dim);
  auto layouts =
      models::SpelledTensors(model, style == Style::kTitan2025 ? "torchtitan_2025" : "torchtitan");
  if (layouts.ok() || layouts.error().code() != Errc::kUnsupported) return layouts;
  return Unsupported("TorchTitan's {} models have no such parameter", family.model_type)
      .on(layouts.error().tensor())
      .hint("--style hf keeps the names of transformers");
}

bool IsTurned(const Model& model, uint32_t param) {
  const Role role = model.params[param].role;
  return role == Role::kQuery || role == Role::kKey;
}

// Adds whole heads at row `at`, as the two halves of each: row 2 i + j is row j half + i.
void AddTurned(const Piece& heads, int64_t half, TensorLayout& out) {
  const Box& box = heads.logical;
  for (int64_t row = 0; row < box.extent[0]; row += half)
    out.pieces.push_back(
        {heads.param,
         {{box.lo[0] + row, box.lo[1]}, {half, box.extent[1]}},
         {(heads.stored_lo[0] + row / (2 * half) * 2 * half) / 2, row / half % 2, 0},
         {0, 2}});
}

// Adds rows that keep their order: each pair of neighbours runs along the second dimension.
void AddPlain(const Piece& rows, TensorLayout& out) {
  const Box& box = rows.logical;
  for (int64_t row = 0; row < box.extent[0]; row += 2)
    out.pieces.push_back({rows.param,
                          {{box.lo[0] + row, box.lo[1]}, {2, box.extent[1]}},
                          {(rows.stored_lo[0] + row) / 2, 0, 0},
                          {1, 2}});
}

// The same tensor with the rows of its queries and keys in pairs.
TensorLayout InPairs(const Model& model, TensorLayout plain) {
  TensorLayout out =
      models::EmptyTensor(std::move(plain.name), {plain.shape[0] / 2, 2, plain.shape[1]});
  std::ranges::sort(plain.pieces, {}, &Piece::stored_lo);
  for (const Piece& piece : plain.pieces)
    if (IsTurned(model, piece.param))
      AddTurned(piece, model.config.head_dim / 2, out);
    else
      AddPlain(piece, out);
  return out;
}

GlobalTensor Laid(const Model& model, TensorLayout plain, const HasTensor& stored) {
  const bool turned = IsTurned(model, plain.pieces.front().param);
  if (model.config.family->titan != models::TitanRope::kPairs || !turned)
    return AsItIs(model, std::move(plain));
  const Shape shape = plain.shape;
  if (stored && !stored(plain.name, shape))
    return {models::EmptyTensor(std::move(plain.name), shape), shape, 0};
  return {InPairs(model, std::move(plain)), shape, 0};
}

// `rows` rows of the parameter from `row` on, placed at row `at`.
Piece RowsOf(const Model& model, uint32_t param, int64_t row, int64_t rows, int64_t at) {
  return {param, {{row, 0}, {rows, model.params[param].shape[1]}}, {at, 0}, {0, 1}};
}

// Makes one tensor of three, group by group: the query heads of a key head, that head, its value
// head. `fused` has the tensor's name and shape.
TensorLayout FuseQkv(const Model& model, std::span<const TensorLayout> qkv, TensorLayout fused) {
  const int64_t head = model.config.head_dim;
  const int64_t of_q = model.config.heads / model.config.kv_heads * head;
  for (int64_t g = 0; g < model.config.kv_heads; ++g) {
    const int64_t at = g * (of_q + 2 * head);
    fused.pieces.push_back(RowsOf(model, qkv[0].pieces.front().param, g * of_q, of_q, at));
    fused.pieces.push_back(RowsOf(model, qkv[1].pieces.front().param, g * head, head, at + of_q));
    fused.pieces.push_back(
        RowsOf(model, qkv[2].pieces.front().param, g * head, head, at + of_q + head));
  }
  return fused;
}

// Without pieces where it is not stored: the number of heads is only what a configuration claims.
GlobalTensor FusedTensor(const Model& model, std::span<const TensorLayout> qkv,
                         const HasTensor& stored) {
  std::string name = qkv[0].name.substr(0, qkv[0].name.size() - kQueryName.size());
  const int64_t rows = qkv[0].shape[0] + qkv[1].shape[0] + qkv[2].shape[0];
  TensorLayout fused = models::EmptyTensor(name.append(kFusedName), {rows, qkv[0].shape[1]});
  const Shape shape = fused.shape;
  if (stored && !stored(fused.name, shape)) return {std::move(fused), shape, 0};
  return Laid(model, FuseQkv(model, qkv, std::move(fused)), stored);
}

bool AreQkv(const Model& model, const std::vector<TensorLayout>& layouts, size_t at) {
  return at + 2 < layouts.size() && layouts[at].name.ends_with(kQueryName) &&
         FirstParam(model, layouts[at]).role == Role::kQuery &&
         FirstParam(model, layouts[at + 1]).role == Role::kKey &&
         FirstParam(model, layouts[at + 2]).role == Role::kValue;
}

// The pieces that a run of rows of the tensor meets. Each head has many, in order, and a chunk
// visits only its own: a hostile file may have as many chunks as heads.
TensorLayout CutPairs(const TensorLayout& layout, const Box& box) {
  const auto first = [](const Piece& piece) { return piece.stored_lo[0]; };
  const auto end = [](const Piece& piece) {
    return piece.stored_lo[0] + (piece.axes[0] == 0 ? piece.logical.extent[0] : 1);
  };
  const auto from = std::ranges::upper_bound(layout.pieces, box.lo[0], {}, end);
  const auto to = std::ranges::lower_bound(layout.pieces, box.lo[0] + box.extent[0], {}, first);
  TensorLayout near{layout.name, layout.file, layout.shape, layout.dtype, {}, {}};
  if (from < to) near.pieces.assign(from, to);
  return CutBox(near, box);
}

// Cuts a chunk that begins or ends within a pair of rows row by row.
TensorLayout CutRowByRow(const GlobalTensor& tensor, const Box& box) {
  const int64_t first = box.lo[0];
  const int64_t end = first + box.extent[0];
  const int64_t pair = first / 2;
  const Box pairs = {{pair, 0, box.lo[1]}, {(end + 1) / 2 - pair, 2, box.extent[1]}};
  TensorLayout cut{tensor.layout.name, tensor.layout.file, box.extent, tensor.layout.dtype, {}, {}};
  for (const Piece& piece : CutPairs(tensor.layout, pairs).pieces)
    for (int64_t i = 0; i < piece.logical.extent[0]; ++i) {
      const int64_t along = piece.axes[0] == 0 ? 2 * i : i;
      const int64_t row = 2 * (pair + piece.stored_lo[0]) + piece.stored_lo[1] + along;
      if (row < first || row >= end) continue;
      const Box logical = {{piece.logical.lo[0] + i, piece.logical.lo[1]},
                           {1, piece.logical.extent[1]}};
      cut.pieces.push_back({piece.param, logical, {row - first, piece.stored_lo[2]}, {0, 1}});
    }
  std::ranges::sort(cut.pieces, {}, &Piece::stored_lo);
  return cut;
}

}  // namespace

Result<std::vector<GlobalTensor>> TitanTensors(const Model& model, Style style,
                                               const HasTensor& stored) {
  NXDKIT_ASSIGN(std::vector<TensorLayout> layouts, PlainLayouts(model, style));
  std::vector<GlobalTensor> tensors;
  for (TensorLayout& layout : layouts) tensors.push_back(Laid(model, std::move(layout), stored));
  return tensors;
}

Result<std::vector<GlobalTensor>> TitanParameters(const Model& model, const HasTensor& stored) {
  NXDKIT_ASSIGN(std::vector<TensorLayout> split, PlainLayouts(model, Style::kTitan));
  std::vector<GlobalTensor> tensors;
  for (size_t i = 0; i < split.size(); ++i) {
    const bool fuses = AreQkv(model, split, i);
    tensors.push_back(fuses ? FusedTensor(model, std::span(split).subspan(i, 3), stored)
                            : Laid(model, std::move(split[i]), stored));
    if (fuses) i += 2;
  }
  return tensors;
}

bool IsTitanBuffer(std::string_view name) {
  return name.ends_with(kBufferName) || name.ends_with(kBufferOf2025);
}

std::vector<TensorLayout> TitanBuffers(const Model& model, Style style) {
  std::vector<TensorLayout> buffers;
  if (style == Style::kHf || style == Style::kHfFused) return buffers;
  const std::string_view name = style == Style::kTitan2025 ? kBufferOf2025 : kBufferName;
  for (int64_t layer = 0; layer < model.config.layers; ++layer) {
    if (!model.config.IsSparse(layer)) continue;
    TensorLayout buffer =
        models::EmptyTensor(fmt::format("layers.{}.{}", layer, name), {model.config.experts});
    buffer.dtype = Dtype::kF32;
    buffer.fills.push_back({WholeBox(buffer.shape), 0});
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

TensorLayout CutPairedChunk(const GlobalTensor& tensor, const Box& box) {
  if (box.lo[0] % 2 != 0 || box.extent[0] % 2 != 0) return CutRowByRow(tensor, box);
  return CutPairs(tensor.layout,
                  {{box.lo[0] / 2, 0, box.lo[1]}, {box.extent[0] / 2, 2, box.extent[1]}});
}

}  // namespace nxdkit::dcp
