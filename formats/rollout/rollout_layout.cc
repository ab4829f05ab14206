#include "formats/rollout/rollout_layout.h"

#include <fmt/core.h>

#include "formats/models/experts.h"
#include "formats/models/rank_tensors.h"
#include "formats/models/view.h"
#include "lib/base/errors.h"

namespace nxdkit::rollout {

using models::Fused;
using models::Param;
using models::Replaced;
using models::Role;

std::string_view FlavorName(Flavor flavor) {
  return flavor == Flavor::kOptimum ? "optimum" : "nxdi";
}

namespace {

std::string ExpertName(const Param& param, std::string_view module) {
  return fmt::format("layers.{}.mlp.{}.weight", param.layer, module);
}

const models::RolloutTraits& TraitsOf(const models::Model& model, const Geometry& geometry) {
  const models::Family& family = *model.config.family;
  return geometry.flavor == Flavor::kNxdi ? family.nxdi : family.optimum;
}

class RolloutBuilder {
 public:
  RolloutBuilder(const models::Model& model, const Geometry& geometry, int rank)
      : model_(model),
        geometry_(geometry),
        heads_(models::RolloutPlacement(model.config.heads, model.config.kv_heads, geometry.tp)
                   .placement[rank]),
        rank_(rank) {}

  std::vector<TensorLayout> Build() {
    for (uint32_t i = 0; i < model_.params.size(); ++i) AddParam(i);
    if (model_.config.tied) AddTiedHead();
    const uint8_t ranks = TraitsOf(model_, geometry_).ranks;
    for (int64_t layer = 0; layer < model_.config.layers; ++layer) {
      if (ranks & models::kAttentionRank)
        AddRankTensor(fmt::format("layers.{}.self_attn.rank_util.rank", layer));
      if ((ranks & models::kExpertRank) && geometry_.expert_ranks && model_.config.IsSparse(layer))
        AddRankTensor(fmt::format("layers.{}.mlp.expert_mlps.spmd_rank.rank", layer));
    }
    if (ranks & models::kModelRank) AddRankTensor("rank_util.rank");
    if (geometry_.vocab_parallel) AddRankTensor("embed_tokens.rank_util.rank");
    return std::move(tensors_);
  }

 private:
  const Param& param(uint32_t i) const { return model_.params[i]; }
  std::string NameOf(uint32_t i) const {
    return models::RenamedBy(*model_.config.family, "bundle", param(i).name);
  }
  bool is_weight(uint32_t i) const { return param(i).shape.size() == 2; }

  void AddParam(uint32_t i) {
    const Fused fused = models::RowOf(param(i).role).fused;
    if (fused == Fused::kQkv || fused == Fused::kExperts) {  // added with the first one
      if (!param(i).Leads()) return;
      return fused == Fused::kQkv ? AddQkv(i) : AddExperts(i);
    }
    if (param(i).role == Role::kEmbedding && !geometry_.vocab_parallel)
      return AddSlice(i, NameOf(i), 1);
    const std::vector<std::string> names =
        models::SplitBy(*model_.config.family, "bundle", param(i).name);
    if (!names.empty()) return AddSplit(i, names);
    AddPart(i);
    if (is_weight(i) && IsTransposed(param(i).role)) TransposeStored(tensors_.back());
  }

  // Adds a parameter that bundles hold in parts: q, k and v in one matrix, or gate and up.
  void AddSplit(uint32_t i, const std::vector<std::string>& names) {
    const models::ParamCut& cut = model_.cuts[param(i).cut];
    const bool heads = models::IsHead(cut.segments.front().of);
    if (heads && geometry_.fused_qkv) {
      tensors_.push_back(Part({i}, FusedName(names.front())));
      if (geometry_.transposed_qkv && is_weight(i)) TransposeStored(tensors_.back());
      return;
    }
    for (size_t s = 0; s < names.size(); ++s) {
      tensors_.push_back(
          models::SegmentTensor(model_, i, s, names[s], {heads_, geometry_.tp, rank_}));
      if (!heads && geometry_.transposed_mlp && is_weight(i)) TransposeStored(tensors_.back());
    }
  }

  static std::string FusedName(std::string query) {
    return Replaced(std::move(query), ".qkv_proj.q_proj.", ".qkv_proj.Wqkv.");
  }

  bool IsTransposed(Role role) const {
    const bool mlp = models::RowOf(role).unit == models::Unit::kIntermediate;
    return role == Role::kOutput ? geometry_.transposed_output : mlp && geometry_.transposed_mlp;
  }

  void AddPart(uint32_t i) { tensors_.push_back(Part({i}, NameOf(i))); }

  TensorLayout Part(const std::vector<uint32_t>& params, std::string name) const {
    return models::PartTensor(model_, params, std::move(name), {heads_, geometry_.tp, rank_});
  }

  void AddSlice(uint32_t i, std::string name, int dim) {
    tensors_.push_back(models::SliceTensor(model_, i, std::move(name), dim, geometry_.tp, rank_));
  }

  void AddExperts(uint32_t gate) {
    const models::ExpertPart part = {geometry_.tp, rank_, 1, 0};
    tensors_.push_back(models::ExpertGateUp(
        model_, gate, part, ExpertName(param(gate), "expert_mlps.mlp_op.gate_up_proj")));
    tensors_.push_back(models::ExpertDown(model_, gate, part,
                                          ExpertName(param(gate), "expert_mlps.mlp_op.down_proj")));
  }

  void AddQkv(uint32_t q) {
    const std::vector<uint32_t> all = models::FusedWith(model_, q);
    if (!geometry_.fused_qkv) {
      for (const uint32_t i : all) AddPart(i);
      return;
    }
    tensors_.push_back(Part(all, FusedName(NameOf(q))));
    if (geometry_.transposed_qkv && is_weight(q)) TransposeStored(tensors_.back());
  }

  void AddTiedHead() {
    for (uint32_t i = 0; i < model_.params.size(); ++i)
      if (param(i).role == Role::kEmbedding) AddSlice(i, "lm_head.weight", 0);
  }

  void AddRankTensor(std::string name) {
    tensors_.push_back({std::move(name), 0, {1}, Dtype::kI32, {}, {{WholeBox({1}), rank_}}});
  }

  const models::Model& model_;
  const Geometry& geometry_;
  const models::RankHeads heads_;
  int64_t rank_;
  std::vector<TensorLayout> tensors_;
};

// Models with experts are built without padding, except of their heads.
Status CheckExperts(const models::Model& model, const Geometry& geometry) {
  const models::ModelConfig& config = model.config;
  if (config.experts == 0) return OkStatus();
  NXDKIT_TRY(models::CheckExpertParts(config, geometry.tp, 1));
  for (const auto& [what, extent] :
       {std::pair{"hidden size", config.hidden}, std::pair{"vocabulary of", config.vocab}})
    if (extent % geometry.tp != 0)
      return Unsupported(
          "{} {} cannot be split evenly over tp {}; bundles of models with experts are not padded",
          what, extent, geometry.tp);
  if (geometry.transposed_mlp)
    return Unsupported("how mlp_kernel_enabled stores the experts of a model is not known");
  bool dense_layers = false;
  for (int64_t layer = 0; layer < config.layers; ++layer) dense_layers |= !config.IsSparse(layer);
  if (dense_layers && !TraitsOf(model, geometry).dense_layers)
    return Unsupported(
        "bundles of flavor {} know no {} layers without experts (mlp_only_layers, "
        "decoder_sparse_step)",
        FlavorName(geometry.flavor), config.family->model_type);
  return OkStatus();
}

// The text of the family must be consistent with this, or its "split" lines cannot be followed.
Status CheckSplits(const models::Model& model) {
  for (const models::Param& param : model.params) {
    const size_t names = models::SplitBy(*model.config.family, "bundle", param.name).size();
    const size_t segments = model.cuts[param.cut].segments.size();
    if (names != 0 && (names != segments || param.CutDim() == models::kWhole))
      return Corrupt("the family's text splits it into {} tensors, its cut has {} segments", names,
                     segments)
          .on(param.name);
  }
  return OkStatus();
}

}  // namespace

Status CheckFamily(const models::ModelConfig& config) {
  if (config.labels > 0)
    return Unsupported("a {} has a score head and no lm_head: no engine generates with it",
                       config.architecture);
  if (config.family->has_bundles() && models::HasView(*config.family, "bundle")) return OkStatus();
  return Unsupported(
             "how rollout bundles hold a {} model is not known: it can be converted between hf, "
             "torch and nxd",
             config.family->model_type)
      .hint(
          "the text of the family lacks a line \"bundle optimum\" or \"bundle nxdi\", or \"view "
          "bundle\"");
}

Result<std::vector<TensorLayout>> RankTensors(const models::Model& model, const Geometry& geometry,
                                              int rank) {
  if (rank < 0 || rank >= geometry.tp)
    return Error(Errc::kInternal, fmt::format("rank {} of tp {}", rank, geometry.tp));
  NXDKIT_TRY(CheckFamily(model.config));
  if (!TraitsOf(model, geometry).known)
    return Unsupported("no bundles of flavor {} are known of {} models",
                       FlavorName(geometry.flavor), model.config.family->model_type)
        .hint(fmt::format("the text of the family lacks a line \"bundle {}\"",
                          FlavorName(geometry.flavor)));
  NXDKIT_TRY(CheckSplits(model));
  NXDKIT_TRY(CheckExperts(model, geometry));
  if (model.config.tied && !TraitsOf(model, geometry).ties)
    return Unsupported("bundles of flavor {} know no {} model with tied embeddings",
                       FlavorName(geometry.flavor), model.config.family->model_type);
  return RolloutBuilder(model, geometry, rank).Build();
}

std::string ShardFileName(int rank) {
  return fmt::format("tp{}_sharded_checkpoint.safetensors", rank);
}

}  // namespace nxdkit::rollout
