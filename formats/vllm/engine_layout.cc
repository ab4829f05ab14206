#include "formats/vllm/engine_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "formats/models/rank_tensors.h"
#include "lib/base/errors.h"

namespace nxdkit::vllm {
namespace {

using models::Param;
using models::Role;

constexpr int64_t kVocabMultiple = 64;  // not times the ranks

int64_t PaddedVocab(int64_t vocab) {
  return (vocab + kVocabMultiple - 1) / kVocabMultiple * kVocabMultiple;
}

// A half-open run of heads, rows or experts.
struct Run {
  int64_t first = 0;
  int64_t count = 0;
};

std::vector<int64_t> Listed(const Run& run) {
  std::vector<int64_t> list(static_cast<size_t>(run.count));
  std::iota(list.begin(), list.end(), run.first);
  return list;
}

Run Share(int64_t all, int64_t ranks, int64_t rank) {
  const int64_t count = all / ranks;
  return {rank * count, count};
}

// Fewer key heads than ranks: one on each, neighbours have the same.
Run KeyHeads(int64_t kv_heads, int64_t tp, int64_t rank) {
  if (kv_heads > tp) return Share(kv_heads, tp, rank);
  return {rank / (tp / kv_heads), 1};
}

// The first ranks have one expert more where they cannot be spread evenly.
Run WholeExperts(int64_t experts, int64_t tp, int64_t rank) {
  const int64_t least = experts / tp;
  const int64_t more = experts % tp;
  return {rank * least + std::min(rank, more), least + (rank < more ? 1 : 0)};
}

class EngineBuilder {
 public:
  EngineBuilder(const models::Model& model, const Geometry& geometry, int rank)
      : model_(model),
        geometry_(geometry),
        rank_(rank),
        heads_{Listed(Share(model.config.heads, geometry.tp, rank)),
               Listed(KeyHeads(model.config.kv_heads, geometry.tp, rank))} {}

  std::vector<TensorLayout> Build() {
    for (uint32_t i = 0; i < model_.params.size(); ++i) AddParam(i);
    return std::move(tensors_);
  }

 private:
  const Param& param(uint32_t i) const { return model_.params[i]; }

  void AddParam(uint32_t i) {
    const models::RoleRow& row = models::RowOf(param(i).role);
    if (!param(i).Leads()) return;  // added with the first of them
    if (row.fused == models::Fused::kExperts) return AddExperts(i);
    tensors_.push_back(row.fused != models::Fused::kAlone ? Stack(i, row.fused)
                       : row.unit == models::Unit::kVocab ? Vocab(i)
                                                          : Part(i));
  }

  // The bias of a row parallel layer is whole: rank 0 alone adds it.
  TensorLayout Part(uint32_t i) const {
    const int dim = param(i).CutDim();
    if (dim == models::kWhole) return models::WholeTensor(model_, i, param(i).name);
    return models::SliceTensor(model_, i, param(i).name, dim, geometry_.tp, rank_);
  }

  TensorLayout Vocab(uint32_t i) const {
    const int64_t rows = PaddedVocab(model_.config.vocab) / geometry_.tp;
    return CutRows(models::WholeTensor(model_, i, param(i).name), rank_ * rows, rows);
  }

  TensorLayout Stack(uint32_t i, models::Fused fused) const {
    const std::vector<uint32_t> all = models::FusedWith(model_, i);
    std::string name = models::FusedName(param(i));
    if (fused == models::Fused::kQkv)
      return models::HeadsTensor(model_, all, std::move(name), heads_);
    return models::StackedSlices(model_, all, std::move(name), geometry_.tp, rank_);
  }

  // w13 [experts, gate rows then up rows, hidden]; w2 [experts, hidden, columns].
  void AddExperts(uint32_t first) {
    const models::ModelConfig& config = model_.config;
    const bool whole = geometry_.expert_parallel;
    const Run experts =
        whole ? WholeExperts(config.experts, geometry_.tp, rank_) : Run{0, config.experts};
    const Run rows = whole ? Run{0, config.expert_intermediate}
                           : Share(config.expert_intermediate, geometry_.tp, rank_);
    const std::string& name = param(first).name;
    const std::string module = name.substr(0, name.find("experts.")) + "experts.routed_experts.";
    TensorLayout w13 =
        models::EmptyTensor(module + "w13_weight", {experts.count, 2 * rows.count, config.hidden});
    TensorLayout w2 =
        models::EmptyTensor(module + "w2_weight", {experts.count, config.hidden, rows.count});
    const Box of_gate{{rows.first, 0}, {rows.count, config.hidden}};
    const Box of_down{{0, rows.first}, {config.hidden, rows.count}};
    for (uint32_t i = first;
         i < model_.params.size() && param(i).layer == param(first).layer && param(i).expert >= 0;
         ++i) {
      const int64_t slot = param(i).expert - experts.first;
      if (slot < 0 || slot >= experts.count) continue;
      if (param(i).role == Role::kExpertDown)
        w2.pieces.push_back({i, of_down, {slot, 0, 0}, {1, 2}});
      else
        w13.pieces.push_back(
            {i, of_gate, {slot, param(i).role == Role::kExpertUp ? rows.count : 0, 0}, {1, 2}});
    }
    tensors_.push_back(std::move(w13));
    tensors_.push_back(std::move(w2));
  }

  const models::Model& model_;
  const Geometry& geometry_;
  const int64_t rank_;
  const models::RankHeads heads_;
  std::vector<TensorLayout> tensors_;
};

Status CheckDivides(std::string_view what, int64_t extent, int64_t tp) {
  if (extent % tp == 0) return OkStatus();
  return Unsupported("{} {} cannot be split over tp {}, which vLLM demands", what, extent, tp);
}

Status CheckModel(const models::ModelConfig& config, const Geometry& geometry) {
  if (!config.family->vllm_known || config.labels > 0)
    return Unsupported("how vLLM holds a model {} is not known", config.architecture);
  const int64_t tp = geometry.tp;
  if (geometry.expert_parallel && config.experts == 0)
    return Unsupported("a {} model has no experts to spread", config.model_type);
  NXDKIT_TRY(CheckDivides("query heads:", config.heads, tp));
  if (config.kv_heads % tp != 0 && tp % config.kv_heads != 0)
    return Unsupported("key heads: {} and tp {}, one of which vLLM wants to divide the other",
                       config.kv_heads, tp);
  NXDKIT_TRY(CheckDivides("vocabulary, padded to", PaddedVocab(config.vocab), tp));
  bool dense = config.experts == 0;
  for (int64_t layer = 0; layer < config.layers && !dense; ++layer) dense = !config.IsSparse(layer);
  if (dense) NXDKIT_TRY(CheckDivides("intermediate size", config.intermediate, tp));
  if (config.experts == 0) return OkStatus();
  if (geometry.expert_parallel) {
    if (tp > config.experts)
      return Unsupported("{} experts are too few for tp {}", config.experts, tp);
    return OkStatus();
  }
  return CheckDivides("the experts' intermediate size", config.expert_intermediate, tp);
}

}  // namespace

Result<std::vector<TensorLayout>> RankTensors(const models::Model& model, const Geometry& geometry,
                                              int rank) {
  NXDKIT_CHECK(rank >= 0 && rank < geometry.tp);
  NXDKIT_TRY(CheckModel(model.config, geometry));
  return EngineBuilder(model, geometry, rank).Build();
}

std::string CheckerKey(int rank, std::string_view name) {
  return fmt::format("dp0:pp0:pcp0:tp{}:{}", rank, name);
}

Dtype EngineDtype(const models::ModelConfig& config) {
  const Dtype dtype = config.dtype.value_or(Dtype::kBF16);
  return dtype == Dtype::kF32 ? Dtype::kBF16 : dtype;
}

}  // namespace nxdkit::vllm
