#include "formats/dcp/layout.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "formats/dcp/sharding.h"
#include "formats/models/experts.h"
#include "formats/models/rank_tensors.h"
#include "lib/base/errors.h"

namespace nxdkit::dcp {
namespace {

using models::Model;
using models::Param;
using models::Role;

// TorchTitan's names, by those of transformers. Source: torchtitan's state_dict_adapter.py of
// llama3 and qwen3, August 2026; `before` is that of releases before April 2026, where it differs.
struct NameRow {
  std::string_view hf;
  std::string_view titan;
  std::string_view before = "";
};
constexpr NameRow kNames[] = {
    {"model.embed_tokens.weight", "tok_embeddings.weight"},
    {"model.layers.{}.self_attn.q_proj.weight", "layers.{}.attention.qkv_linear.wq.weight",
     "layers.{}.attention.wq.weight"},
    {"model.layers.{}.self_attn.k_proj.weight", "layers.{}.attention.qkv_linear.wk.weight",
     "layers.{}.attention.wk.weight"},
    {"model.layers.{}.self_attn.v_proj.weight", "layers.{}.attention.qkv_linear.wv.weight",
     "layers.{}.attention.wv.weight"},
    {"model.layers.{}.self_attn.o_proj.weight", "layers.{}.attention.wo.weight"},
    {"model.layers.{}.self_attn.q_norm.weight", "layers.{}.attention.q_norm.weight"},
    {"model.layers.{}.self_attn.k_norm.weight", "layers.{}.attention.k_norm.weight"},
    {"model.layers.{}.mlp.gate_proj.weight", "layers.{}.feed_forward.w1.weight"},
    {"model.layers.{}.mlp.up_proj.weight", "layers.{}.feed_forward.w3.weight"},
    {"model.layers.{}.mlp.down_proj.weight", "layers.{}.feed_forward.w2.weight"},
    {"model.layers.{}.mlp.gate.weight", "layers.{}.moe.router.gate.weight"},
    {"model.layers.{}.mlp.experts.{e}.gate_proj.weight",
     "layers.{}.moe.routed_experts.inner_experts.w1_EFD"},
    {"model.layers.{}.mlp.experts.{e}.up_proj.weight",
     "layers.{}.moe.routed_experts.inner_experts.w3_EFD"},
    {"model.layers.{}.mlp.experts.{e}.down_proj.weight",
     "layers.{}.moe.routed_experts.inner_experts.w2_EDF"},
    {"model.layers.{}.input_layernorm.weight", "layers.{}.attention_norm.weight"},
    {"model.layers.{}.post_attention_layernorm.weight", "layers.{}.ffn_norm.weight"},
    {"model.norm.weight", "norm.weight"},
    {"lm_head.weight", "lm_head.weight", "output.weight"},
};

std::string Numbered(std::string_view pattern, const Param& param) {
  std::string name = models::Replaced(std::string(pattern), "{}", std::to_string(param.layer));
  return models::Replaced(std::move(name), "{e}", std::to_string(param.expert));
}

// nullopt: TorchTitan has no such parameter.
std::optional<std::string> TitanName(const Param& param, Style style) {
  for (const NameRow& row : kNames) {
    if (Numbered(row.hf, param) != param.name) continue;
    const bool before = style == Style::kTitan2025 && !row.before.empty();
    return Numbered(before ? row.before : row.titan, param);
  }
  return std::nullopt;
}

// Vectors are whole on all ranks.
int TpDimOf(const Param& param) { return param.shape.size() < 2 ? models::kWhole : param.CutDim(); }

GlobalTensor Whole(const Model& model, uint32_t param, std::string name) {
  TensorLayout layout = models::WholeTensor(model, param, std::move(name));
  Shape shape = layout.shape;
  return {std::move(layout), std::move(shape), TpDimOf(model.params[param])};
}

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

// All experts of the layer, one after the other, from the first one on.
GlobalTensor Stacked(const Model& model, uint32_t first, std::string name) {
  const Param& param = model.params[first];
  const int64_t experts = model.config.experts;
  TensorLayout layout =
      models::EmptyTensor(std::move(name), {experts, param.shape[0], param.shape[1]});
  for (uint32_t i = first; i < model.params.size() && model.params[i].layer == param.layer; ++i)
    if (model.params[i].role == param.role)
      layout.pieces.push_back(
          {i, WholeBox(param.shape), {int64_t{model.params[i].expert}, 0, 0}, {1, 2}});
  Shape shape = layout.shape;
  return {std::move(layout), std::move(shape), 1 + TpDimOf(param)};
}

// Its name and shape, and not where its elements lie.
GlobalTensor Unlaid(const Param& param, std::string name) {
  return {models::EmptyTensor(std::move(name), param.shape), param.shape, TpDimOf(param)};
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
  std::vector<GlobalTensor> tensors;
  for (uint32_t i = 0; i < model.params.size(); ++i) {
    const Param& param = model.params[i];
    std::optional<std::string> name = TitanName(param, style);
    if (!name)
      return Unsupported("TorchTitan's {} models have no such parameter", family.model_type)
          .on(param.name)
          .hint("--style hf keeps the names of transformers");
    if (param.expert > 0) continue;  // stacked with the first
    const bool turned = param.role == Role::kQuery || param.role == Role::kKey;
    if (param.expert == 0)
      tensors.push_back(Stacked(model, i, *std::move(name)));
    else if (pairs && turned)
      tensors.push_back(!stored || stored(*name, param.shape) ? InPairs(model, i, *std::move(name))
                                                              : Unlaid(param, *std::move(name)));
    else
      tensors.push_back(Whole(model, i, *std::move(name)));
  }
  if (const auto embedding = model.Find("model.embed_tokens.weight");
      embedding && model.config.tied)
    tensors.push_back(
        Whole(model, *embedding, style == Style::kTitan2025 ? "output.weight" : "lm_head.weight"));
  return tensors;
}

GlobalTensor AsItIs(const Model& model, TensorLayout layout) {
  const Param& param = model.params[layout.pieces.front().param];
  const bool stacked = layout.shape.size() > param.shape.size();
  const int dim = TpDimOf(param) + (stacked ? 1 : 0);
  Shape shape = layout.shape;
  return {std::move(layout), std::move(shape), dim};
}

std::vector<GlobalTensor> AsTheyAre(const Model& model, std::vector<TensorLayout> layouts) {
  std::vector<GlobalTensor> tensors;
  for (TensorLayout& layout : layouts) tensors.push_back(AsItIs(model, std::move(layout)));
  return tensors;
}

uint32_t FirstParam(const TensorLayout& layout) { return layout.pieces.front().param; }

// As the modules of transformers 5 have them, in the model's order.
std::vector<TensorLayout> WithFusedExperts(const Model& model) {
  std::vector<TensorLayout> fused = models::FusedExperts(model);
  std::set<uint32_t> in_fused;
  for (const TensorLayout& layout : fused)
    for (const Piece& piece : layout.pieces) in_fused.insert(piece.param);
  std::vector<TensorLayout> layouts = models::HfTensors(model, true);
  std::erase_if(layouts, [&](const auto& one) { return in_fused.contains(FirstParam(one)); });
  std::ranges::move(fused, std::back_inserter(layouts));
  std::ranges::stable_sort(layouts, {}, FirstParam);
  return layouts;
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
  const Run part = PartOf({box.lo[d], box.extent[d]}, parts, index);
  box.lo[d] = part.first;
  box.extent[d] = part.count;
  return box;
}

}  // namespace

Result<std::vector<GlobalTensor>> ModelTensors(const Model& model, Style style,
                                               const HasTensor& stored) {
  if (style == Style::kHf) return AsTheyAre(model, models::HfTensors(model, true));
  if (style == Style::kHfFused) return AsTheyAre(model, WithFusedExperts(model));
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
