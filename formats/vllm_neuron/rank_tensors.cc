#include "formats/vllm_neuron/rank_tensors.h"

#include <fmt/core.h>

#include <numeric>

#include "formats/models/rank_tensors.h"
#include "formats/models/view.h"
#include "lib/base/errors.h"

namespace nxdkit::vllm_neuron {
namespace {

using models::Param;
using models::Role;

std::vector<int64_t> Run(int64_t first, int64_t count) {
  std::vector<int64_t> list(static_cast<size_t>(count));
  std::iota(list.begin(), list.end(), first);
  return list;
}

// Parts of the heads are counted over the data parallel groups of a rank first.
std::vector<int64_t> HeadsOfCore(int64_t heads, const Geometry& geometry, const Core& core) {
  const int64_t each = heads / geometry.cores();
  return Run((core.dp + int64_t{core.rank} * geometry.attention_dp) * each, each);
}

// The loader rounds the ranks per head down where there are fewer heads than ranks: the last ranks
// may ask for a head that does not exist, and keep zeros.
std::vector<int64_t> KeyHeads(const models::ModelConfig& config, const Geometry& geometry,
                              const Core& core) {
  const int64_t kv_heads = config.kv_heads, tp = geometry.tp;
  if (CutsKeysOverDp(config, geometry)) return HeadsOfCore(kv_heads, geometry, core);
  if (kv_heads > tp) return Run(core.rank * (kv_heads / tp), kv_heads / tp);
  const int64_t head = core.rank / (tp / kv_heads);
  return {head < kv_heads ? head : models::kZeroHead};
}

bool IsProjection(std::string_view name) { return name.ends_with("_proj_weight"); }

class CoreBuilder {
 public:
  CoreBuilder(const models::Model& model, const Geometry& geometry, int number)
      : model_(model),
        geometry_(geometry),
        core_(CoreOf(geometry, number)),
        heads_{HeadsOfCore(model.config.heads, geometry, core_),
               KeyHeads(model.config, geometry, core_)} {}

  Result<std::vector<TensorLayout>> Build() const {
    std::vector<std::optional<TensorLayout>> parts;
    for (uint32_t i = 0; i < model_.params.size(); ++i) parts.push_back(Part(i));
    NXDKIT_ASSIGN(std::vector<TensorLayout> tensors,
                  models::ViewTensors(model_, kView, std::move(parts), core_.rank));
    for (TensorLayout& tensor : tensors) {
      if (IsProjection(tensor.name)) TransposeStored(tensor);
      tensor.dtype = FixedDtype(tensor.name);
    }
    for (const models::Alias& alias : model_.config.aliases)
      if (const auto of = model_.Find(alias.of)) tensors.push_back(Head(*of, alias.name));
    return tensors;
  }

 private:
  // nullopt for parameters that the core does not hold: another core's expert, or a bias without a
  // parameter in the engine.
  std::optional<TensorLayout> Part(uint32_t i) const {
    const Param& param = model_.params[i];
    if (param.name.ends_with(".bias")) return std::nullopt;
    if (param.role == Role::kEmbedding) return Embedding(i);
    if (param.role == Role::kLmHead) return Head(i, param.name);
    const int64_t tp = param.expert < 0 ? geometry_.tp : geometry_.tp / geometry_.ep;
    if (param.expert >= 0 && !HasExpert(param.expert)) return std::nullopt;
    return models::PartTensor(model_, {i}, param.name, {heads_, tp, core_.rank % tp});
  }

  // Equal runs of experts, the last of which may be on no core.
  bool HasExpert(int64_t expert) const {
    const int64_t each = model_.config.experts / geometry_.ep;
    return expert / each == core_.rank / (geometry_.tp / geometry_.ep);
  }

  TensorLayout Embedding(uint32_t i) const {
    const int64_t rows = (model_.params[i].shape[0] + geometry_.tp - 1) / geometry_.tp;
    return CutRows(models::WholeTensor(model_, i, model_.params[i].name), core_.rank * rows, rows);
  }

  // Remaining rows are on no rank.
  TensorLayout Head(uint32_t i, const std::string& name) const {
    const int64_t rows = model_.params[i].shape[0] / geometry_.tp;
    return CutRows(models::WholeTensor(model_, i, name), core_.rank * rows, rows);
  }

  std::optional<Dtype> FixedDtype(std::string_view name) const {
    if (model_.config.experts == 0) return std::nullopt;
    if (name.ends_with(".q_norm.weight") || name.ends_with(".k_norm.weight")) return Dtype::kF32;
    return name.ends_with(".router_weight") ? std::optional(Dtype::kBF16) : std::nullopt;
  }

  const models::Model& model_;
  const Geometry& geometry_;
  const Core core_;
  const models::RankHeads heads_;
};

}  // namespace

Result<std::vector<TensorLayout>> CoreTensors(const models::Model& model, const Geometry& geometry,
                                              int core) {
  NXDKIT_CHECK(core >= 0 && core < geometry.cores());
  NXDKIT_TRY(CheckKnown(model));
  for (const SizeFault& fault : SizeFaults(model.config, geometry))
    if (!fault.has_layout)
      return Unsupported("vLLM Neuron has no layout of this model: {}", fault.message)
          .hint(fmt::format("found {}, expected {}", fault.found, fault.expected));
  return CoreBuilder(model, geometry, core).Build();
}

std::string DtypeFault(const models::ModelConfig& config, Dtype dtype) {
  if (config.experts == 0 || dtype == Dtype::kBF16) return "";
  return fmt::format("experts are rounded to BF16 first and then to {}: not predicted",
                     Name(dtype));
}

}  // namespace nxdkit::vllm_neuron
