#include "formats/nkipy/layout.h"

#include <fmt/core.h>

#include "formats/models/rank_tensors.h"
#include "formats/models/view.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::nkipy {
namespace {

using models::Param;
using models::Role;

constexpr std::string_view kView = "nkipy";  // the name in the families' texts
constexpr std::string_view kEmbedding = "tok_embedding";
constexpr std::string_view kHead = "lm_head_weight";
constexpr std::string_view kBefore = "shard_", kAfter = ".safetensors";

// The dimension along which a parameter is cut, or kWhole.
int CutOf(const Param& param, const Geometry& geometry) {
  if (param.role != Role::kEmbedding) return param.CutDim();
  return geometry.embedding == Embedding::kColumns ? 1 : models::kWhole;
}

// `dim`: kWhole if not cut.
Status CheckDivides(const Param& param, const std::string& name, int dim, int tp) {
  if (dim == models::kWhole || param.role == Role::kKey || param.role == Role::kValue)
    return OkStatus();
  const int64_t extent = param.shape[static_cast<size_t>(dim)];
  if (extent % tp == 0) return OkStatus();
  return Unsupported(
             "dimension {} has {} elements, which tp {} does not divide: the vendor's script would "
             "store it whole on every rank",
             dim, extent, tp)
      .on(name)
      .hint("choose a tp that divides it");
}

Status CheckModel(const models::Model& model, const Geometry& geometry) {
  const models::ModelConfig& config = model.config;
  const bool has_heads = config.heads > 0 && config.kv_heads > 0;
  if (!models::HasView(*config.family, kView) || config.labels > 0 || !has_heads)
    return Unsupported("how NKIPy's rank files hold a model {} is not known", config.architecture)
        .hint("the text of the family has no line \"view nkipy\"");
  for (const Param& param : model.params)
    NXDKIT_TRY(CheckDivides(param, param.name, CutOf(param, geometry), geometry.tp));
  for (const models::Alias& alias : config.aliases)
    if (const auto of = model.Find(alias.of))
      NXDKIT_TRY(CheckDivides(model.params[*of], alias.name, 0, geometry.tp));
  return OkStatus();
}

class RankBuilder {
 public:
  RankBuilder(const models::Model& model, const Geometry& geometry, int rank,
              const models::RankHeads& heads)
      : model_(model), geometry_(geometry), rank_(rank), heads_(heads) {}

  Result<std::vector<TensorLayout>> Build() const {
    std::vector<std::optional<TensorLayout>> parts;
    for (uint32_t i = 0; i < model_.params.size(); ++i) parts.push_back(Part(i));
    NXDKIT_ASSIGN(std::vector<TensorLayout> tensors,
                  models::ViewTensors(model_, kView, std::move(parts), rank_));
    for (const models::Alias& alias : model_.config.aliases)
      if (const auto of = model_.Find(alias.of))
        tensors.push_back(Slice(*of, 0, std::string(kHead)));
    for (TensorLayout& tensor : tensors)
      if (tensor.shape.size() >= 2 && tensor.name != kEmbedding) TransposeStored(tensor);
    return tensors;
  }

 private:
  TensorLayout Part(uint32_t i) const {
    const Param& param = model_.params[i];
    if (param.role != Role::kEmbedding)
      return models::PartTensor(model_, {i}, param.name, {heads_, geometry_.tp, rank_});
    const int dim = CutOf(param, geometry_);
    return dim == models::kWhole ? models::WholeTensor(model_, i, param.name)
                                 : Slice(i, dim, param.name);
  }

  TensorLayout Slice(uint32_t i, int dim, std::string name) const {
    return models::SliceTensor(model_, i, std::move(name), dim, geometry_.tp, rank_);
  }

  const models::Model& model_;
  const Geometry& geometry_;
  const int64_t rank_;
  const models::RankHeads& heads_;
};

}  // namespace

std::string ShardFileName(int rank) { return fmt::format("{}{}{}", kBefore, rank, kAfter); }

std::optional<int> RankOfFile(std::string_view name) {
  if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) return std::nullopt;
  if (name.size() < kBefore.size() + kAfter.size()) return std::nullopt;
  name.remove_prefix(kBefore.size());
  name.remove_suffix(kAfter.size());
  const std::optional<int> rank = ParseNumber<int>(name);
  return rank && *rank >= 0 && std::to_string(*rank) == name ? rank : std::nullopt;
}

std::string_view EmbeddingName(Embedding embedding) {
  return embedding == Embedding::kColumns ? "columns" : "whole";
}

std::optional<Embedding> EmbeddingFromName(std::string_view name) {
  for (const Embedding embedding : {Embedding::kColumns, Embedding::kWhole})
    if (EmbeddingName(embedding) == name) return embedding;
  return std::nullopt;
}

// With fewer key heads than ranks, the script gives rank r key head k r / N, rounded down, which is
// that of the rank's queries only where k divides N; with more it cuts rows, which are whole heads
// only where N divides k.
Result<models::Placement> Heads(const models::ModelConfig& config, int tp) {
  if (config.heads % tp != 0) return models::CannotSplitHeads(config.heads, tp);
  const int64_t kv = config.kv_heads;
  if (kv % tp != 0 && tp % kv != 0)
    return Unsupported(
        "{} key heads and tp {}: neither divides the other, so query heads would be paired with "
        "other heads' keys",
        kv, tp);
  const int64_t multiplier = tp > kv ? tp / kv : 1;
  return models::TrainingPlacement(config.heads, kv, multiplier, tp, models::Hardware::kTrn2);
}

Result<std::vector<TensorLayout>> RankTensors(const models::Model& model, const Geometry& geometry,
                                              int rank) {
  NXDKIT_CHECK(rank >= 0 && rank < geometry.tp);
  NXDKIT_TRY(CheckModel(model, geometry));
  NXDKIT_ASSIGN(const models::Placement heads, Heads(model.config, geometry.tp));
  return RankBuilder(model, geometry, rank, heads[static_cast<size_t>(rank)]).Build();
}

}  // namespace nxdkit::nkipy
