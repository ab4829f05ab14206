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

uint32_t Partner(const Model& model, uint32_t param, std::string_view from, std::string_view to) {
  const std::string name = Replaced(model.params[param].name, from, to);
  for (uint32_t p = param; p < model.params.size(); ++p)
    if (model.params[p].name == name) return p;
  NXDKIT_CHECK(false && "a family without the partner of a projection");
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

TensorLayout HeadsTensor(const Model& model, std::string name, const std::vector<HeadsOf>& parts,
                         int dim) {
  const int64_t size = model.config.head_dim;
  TensorLayout tensor = EmptyTensor(std::move(name), model.params[parts.front().first].shape);
  tensor.shape[dim] = 0;
  for (const auto& [param, heads] : parts)
    tensor.shape[dim] += size * static_cast<int64_t>(heads->size());
  int64_t at = 0;
  for (const auto& [param, heads] : parts)
    for (const int64_t head : *heads) {
      if (head == kZeroHead)
        AddZeros(tensor, dim, at, size);
      else
        AddPart(tensor, model, param, dim, head * size, size, at);
      at += size;
    }
  return tensor;
}

}  // namespace nxdkit::models
