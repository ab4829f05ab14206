#include "formats/dcp/layout.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "formats/dcp/titan.h"
#include "formats/dtensor/sharding.h"
#include "formats/models/rank_tensors.h"
#include "formats/models/view.h"
#include "lib/base/errors.h"

namespace nxdkit::dcp {
namespace {

using models::Model;
using models::Param;

// The modules of transformers 5, by the name of that spelling in the families' texts.
constexpr std::string_view kFusedSpelling = "memory";

// Vectors are whole on all ranks.
int TpDimOf(const Param& param) { return param.shape.size() < 2 ? models::kWhole : param.CutDim(); }

std::vector<GlobalTensor> AsTheyAre(const Model& model, std::vector<TensorLayout> layouts) {
  std::vector<GlobalTensor> tensors;
  for (TensorLayout& layout : layouts) tensors.push_back(AsItIs(model, std::move(layout)));
  return tensors;
}

Box CutAlong(int dim, Box box, int parts, int index) {
  const auto d = static_cast<size_t>(dim);
  const dtensor::Run part = dtensor::PartOf({box.lo[d], box.extent[d]}, parts, index);
  box.lo[d] = part.first;
  box.extent[d] = part.count;
  return box;
}

}  // namespace

GlobalTensor AsItIs(const Model& model, TensorLayout layout) {
  const Param& param = model.params[layout.pieces.front().param];
  const bool stacked = layout.shape.size() > param.shape.size();
  const int dim = TpDimOf(param) + (stacked ? 1 : 0);
  Shape shape = layout.shape;
  return {std::move(layout), std::move(shape), dim};
}

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

Result<std::vector<GlobalTensor>> StateTensors(const Model& model, Style style,
                                               const HasTensor& stored) {
  if (style == Style::kTitan) return TitanParameters(model, stored);
  return ModelTensors(model, style, stored);
}

std::vector<GlobalTensor> TensorsOfAnyStyle(const Model& model, const HasTensor& stored) {
  std::vector<GlobalTensor> all;
  const auto add = [&](Result<std::vector<GlobalTensor>> tensors) {
    if (!tensors.ok()) return;  // the style has no such model
    std::ranges::move(*tensors, std::back_inserter(all));
  };
  for (const Style style : kStyles)
    if (style != Style::kTitanUnfused) add(ModelTensors(model, style, stored));
  add(StateTensors(model, Style::kTitan, stored));
  return all;
}

TensorLayout CutChunk(const GlobalTensor& tensor, const Box& box) {
  return tensor.has_pairs() ? CutPairedChunk(tensor, box) : CutBox(tensor.layout, box);
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
