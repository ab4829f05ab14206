#include "formats/models/rank_tensors.h"

#include <algorithm>

namespace nxdkit::models {
namespace {

// `count` rows or columns from `from` on, to `at` of the tensor.
void AddPart(TensorLayout& tensor, const Model& model, uint32_t param, int dim, int64_t from,
             int64_t count, int64_t at) {
  const Shape& shape = model.params[param].shape;
  if (dim == 0)
    AddRows(tensor, param, shape, from, count, at);
  else
    AddColumns(tensor, param, shape, from, count, at);
}

}  // namespace

TensorLayout EmptyTensor(std::string name, Shape shape) {
  return {std::move(name), 0, std::move(shape), std::nullopt, {}, {}};
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

std::vector<uint32_t> FusedWith(const Model& model, uint32_t param) {
  const Param& first = model.params[param];
  std::vector<uint32_t> fused;
  for (uint32_t i = param; i < model.params.size() && model.params[i].layer == first.layer; ++i)
    if (RowOf(model.params[i].role).fused == RowOf(first.role).fused &&
        model.params[i].shape.size() == first.shape.size())
      fused.push_back(i);
  return fused;
}

std::string FusedName(const Param& param) {
  const size_t end = param.name.rfind('.');
  const size_t begin = param.name.rfind('.', end - 1) + 1;
  return std::string(param.name).replace(begin, end - begin, FusedModule(RowOf(param.role).fused));
}

TensorLayout WholeTensor(const Model& model, uint32_t param, std::string name) {
  return nxdkit::WholeTensor(std::move(name), 0, param, model.params[param].shape);
}

std::vector<TensorLayout> HfTensors(const Model& model, bool aliases) {
  std::vector<TensorLayout> tensors;
  for (uint32_t i = 0; i < model.params.size(); ++i)
    tensors.push_back(WholeTensor(model, i, model.params[i].name));
  if (!aliases) return tensors;
  for (const Alias& alias : model.config.family->aliases)
    if (const auto i = model.Find(alias.of); i && (model.config.tied || !alias.tied))
      tensors.push_back(WholeTensor(model, *i, alias.name));
  return tensors;
}

TensorLayout SliceTensor(const Model& model, uint32_t param, std::string name, int dim, int64_t tp,
                         int64_t rank) {
  TensorLayout tensor = EmptyTensor(std::move(name), model.params[param].shape);
  const int64_t extent = tensor.shape[dim];
  const int64_t part = (extent + tp - 1) / tp;
  const int64_t from = std::min(rank * part, extent);
  const int64_t real = std::min(part, extent - from);
  tensor.shape[dim] = part;
  AddPart(tensor, model, param, dim, from, real, 0);
  AddZeros(tensor, dim, real, part - real);
  return tensor;
}

TensorLayout StackedSlices(const Model& model, const std::vector<uint32_t>& params,
                           std::string name, int64_t tp, int64_t rank) {
  const Shape& shape = model.params[params.front()].shape;
  const int64_t rows = shape[0] / tp;
  TensorLayout tensor = EmptyTensor(std::move(name), shape);
  tensor.shape[0] = 0;
  for (const uint32_t param : params) {
    AddRows(tensor, param, shape, rank * rows, rows, tensor.shape[0]);
    tensor.shape[0] += rows;
  }
  return tensor;
}

TensorLayout HeadsTensor(const Model& model, const std::vector<uint32_t>& params, std::string name,
                         const RankHeads& heads) {
  const int64_t size = model.config.head_dim;
  const Param& first = model.params[params.front()];
  const int dim = first.CutDim();
  const auto heads_of = [&](uint32_t param) -> const std::vector<int64_t>& {
    return RowOf(model.params[param].role).unit == Unit::kKeyHead ? heads.kv : heads.query;
  };
  TensorLayout tensor = EmptyTensor(std::move(name), first.shape);
  tensor.shape[dim] = 0;
  for (const uint32_t param : params)
    tensor.shape[dim] += size * static_cast<int64_t>(heads_of(param).size());
  int64_t at = 0;
  for (const uint32_t param : params)
    for (const int64_t head : heads_of(param)) {
      if (head == kZeroHead)
        AddZeros(tensor, dim, at, size);
      else
        AddPart(tensor, model, param, dim, head * size, size, at);
      at += size;
    }
  return tensor;
}

TensorLayout PartTensor(const Model& model, uint32_t param, std::string name,
                        const RankHeads& heads, int64_t tp, int64_t rank) {
  const int dim = model.params[param].CutDim();
  if (dim == kWhole) return WholeTensor(model, param, std::move(name));
  if (IsHead(RowOf(model.params[param].role).unit))
    return HeadsTensor(model, {param}, std::move(name), heads);
  return SliceTensor(model, param, std::move(name), dim, tp, rank);
}

}  // namespace nxdkit::models
