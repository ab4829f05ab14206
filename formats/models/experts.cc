#include "formats/models/experts.h"

#include <fmt/core.h>

#include "formats/models/rank_tensors.h"
#include "lib/base/errors.h"

namespace nxdkit::models {
namespace {

// Puts rows or columns of a matrix [out, in], transposed, at `at` in a tensor [expert, in, out].
void AddTransposed(TensorLayout& tensor, uint32_t param, Box box, Shape at) {
  tensor.pieces.push_back({param, std::move(box), std::move(at), {2, 1}});
}

// Calls `add(param, slot)` for the parameters of this role and layer whose expert the rank holds.
template <typename Add>
void ForExperts(const Model& model, uint32_t first, const ExpertPart& part, Role role, Add add) {
  const int64_t count = model.config.experts / part.ep;
  const int layer = model.params[first].layer;
  for (uint32_t i = first; i < model.params.size() && model.params[i].layer == layer; ++i) {
    const int64_t slot = model.params[i].expert - part.ep_rank * count;
    if (model.params[i].role == role && slot >= 0 && slot < count) add(i, slot);
  }
}

}  // namespace

Status CheckExpertParts(const ModelConfig& config, int64_t tp, int64_t ep) {
  if (config.experts == 0 && ep > 1)
    return Unsupported("a {} model has no experts to spread over ep {}", config.model_type, ep);
  if (config.experts == 0) return OkStatus();
  if (config.experts % ep != 0)
    return Unsupported("{} experts cannot be split evenly over ep {}", config.experts, ep);
  if (config.expert_intermediate % tp != 0)
    return Unsupported(
        "the experts' intermediate size {} cannot be split evenly over tp {}; expert layers are "
        "not padded",
        config.expert_intermediate, tp);
  return OkStatus();
}

TensorLayout ExpertGateUp(const Model& model, uint32_t first, const ExpertPart& part,
                          std::string name) {
  const int64_t hidden = model.config.hidden;
  const int64_t columns = model.config.expert_intermediate / part.tp;
  TensorLayout tensor =
      EmptyTensor(std::move(name), {model.config.experts / part.ep, hidden, 2 * columns});
  const Box rows = {{part.tp_rank * columns, 0}, {columns, hidden}};
  for (const auto& [role, at] :
       {std::pair{Role::kExpertGate, int64_t{0}}, std::pair{Role::kExpertUp, columns}})
    ForExperts(model, first, part, role, [&, at = at](uint32_t param, int64_t slot) {
      AddTransposed(tensor, param, rows, {slot, 0, at});
    });
  return tensor;
}

TensorLayout ExpertDown(const Model& model, uint32_t first, const ExpertPart& part,
                        std::string name) {
  const int64_t hidden = model.config.hidden;
  const int64_t rows = model.config.expert_intermediate / part.tp;
  TensorLayout tensor =
      EmptyTensor(std::move(name), {model.config.experts / part.ep, rows, hidden});
  const Box columns = {{0, part.tp_rank * rows}, {hidden, rows}};
  ForExperts(model, first, part, Role::kExpertDown, [&](uint32_t param, int64_t slot) {
    AddTransposed(tensor, param, columns, {slot, 0, 0});
  });
  return tensor;
}

}  // namespace nxdkit::models
