#include "formats/vllm/engine_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "formats/models/rank_tensors.h"
#include "formats/models/view.h"
#include "lib/base/errors.h"

namespace nxdkit::vllm {
namespace {

using models::Param;

constexpr std::string_view kView = "vllm";  // in the families' texts
constexpr int64_t kVocabMultiple = 64;      // not times the ranks

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

// With fewer key heads than ranks, each rank has one, and neighbours share it.
Run KeyHeads(int64_t kv_heads, int64_t tp, int64_t rank) {
  if (kv_heads > tp || kv_heads == 0) return Share(kv_heads, tp, rank);
  return {rank / (tp / kv_heads), 1};
}

// The first ranks have one expert more if they cannot be spread evenly.
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

  Result<std::vector<TensorLayout>> Build() const {
    std::vector<std::optional<TensorLayout>> parts;
    for (uint32_t i = 0; i < model_.params.size(); ++i) parts.push_back(Part(i));
    return models::ViewTensors(model_, kView, std::move(parts), rank_);
  }

 private:
  const Param& param(uint32_t i) const { return model_.params[i]; }

  // nullopt for an expert on another rank.
  std::optional<TensorLayout> Part(uint32_t i) const {
    if (model_.cuts[param(i).cut].vocab) return Vocab(i);
    if (geometry_.expert_parallel && param(i).expert >= 0) {
      const Run here = WholeExperts(model_.config.experts, geometry_.tp, rank_);
      const int64_t slot = param(i).expert - here.first;
      if (slot < 0 || slot >= here.count) return std::nullopt;
      return models::WholeTensor(model_, i, param(i).name);
    }
    return models::PartTensor(model_, {i}, param(i).name, {heads_, geometry_.tp, rank_});
  }

  TensorLayout Vocab(uint32_t i) const {
    const int64_t rows = PaddedVocab(param(i).shape[0]) / geometry_.tp;
    return CutRows(models::WholeTensor(model_, i, param(i).name), rank_ * rows, rows);
  }

  const models::Model& model_;
  const Geometry& geometry_;
  const int64_t rank_;
  const models::RankHeads heads_;
};

Status CheckDivides(std::string_view what, int64_t extent, int64_t tp) {
  if (extent % tp == 0) return OkStatus();
  return Unsupported("{} {} cannot be split over tp {}, which vLLM requires", what, extent, tp);
}

Status CheckModel(const models::Model& model, const Geometry& geometry) {
  const models::ModelConfig& config = model.config;
  if (!models::HasView(*config.family, kView) || config.labels > 0)
    return Unsupported("how vLLM holds a model {} is not known", config.architecture)
        .hint("the text of the family has no line \"view vllm\"");
  const int64_t tp = geometry.tp;
  if (geometry.expert_parallel && config.experts == 0)
    return Unsupported("a {} model has no experts to spread", config.model_type);
  NXDKIT_TRY(CheckDivides("query heads:", config.heads, tp));
  if (config.kv_heads > 0 && config.kv_heads % tp != 0 && tp % config.kv_heads != 0)
    return Unsupported("key heads: {} and tp {}, one of which must divide the other in vLLM",
                       config.kv_heads, tp);
  NXDKIT_TRY(CheckDivides("vocabulary, padded to", PaddedVocab(config.vocab), tp));
  bool dense = config.experts == 0;
  for (int64_t layer = 0; layer < config.layers && !dense; ++layer) dense = !config.IsSparse(layer);
  if (dense) NXDKIT_TRY(CheckDivides("intermediate size", config.intermediate, tp));
  for (uint32_t i = 0; i < model.params.size(); ++i)
    if (model.params[i].expert < 0 && !model.cuts[model.params[i].cut].vocab)
      NXDKIT_TRY(models::CheckEven(model, i, tp));
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
  NXDKIT_TRY(CheckModel(model, geometry));
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
