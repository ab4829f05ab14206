#include "formats/rollout/rollout_layout.h"

#include <fmt/core.h>

#include <array>

#include "formats/models/experts.h"

namespace nxdkit::rollout {

using models::Param;
using models::Role;

std::string_view FlavorName(Flavor flavor) {
  return flavor == Flavor::kOptimum ? "optimum" : "nxdi";
}

namespace {

int64_t CeilTo(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

// Renames that need only the name; the leading "model." goes for all.
struct Rename {
  Role role;
  const char* from;
  const char* to;
};
constexpr Rename kRenames[] = {
    {Role::kQuery, ".q_proj.", ".qkv_proj.q_proj."}, {Role::kKey, ".k_proj.", ".qkv_proj.k_proj."},
    {Role::kValue, ".v_proj.", ".qkv_proj.v_proj."}, {Role::kOutput, ".o_proj.", ".o_proj.o_proj."},
    {Role::kQueryNorm, ".q_norm.", ".q_layernorm."}, {Role::kKeyNorm, ".k_norm.", ".k_layernorm."},
};

std::string RolloutName(const Param& param) {
  std::string name = param.name;
  if (name.starts_with("model.")) name.erase(0, 6);
  for (const Rename& rename : kRenames)
    if (rename.role == param.role) return Replaced(std::move(name), rename.from, rename.to);
  return name;
}

const models::RolloutTraits& TraitsOf(const models::Model& model, const Geometry& geometry) {
  const models::Family& family = *model.config.family;
  return geometry.flavor == Flavor::kNxdi ? family.nxdi : family.optimum;
}

class Builder {
 public:
  Builder(const models::Model& model, const Geometry& geometry, int rank)
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
  bool is_weight(uint32_t i) const { return param(i).shape.size() == 2; }

  TensorLayout& Add(std::string name, Shape shape) {
    tensors_.push_back({std::move(name), 0, std::move(shape), std::nullopt, {}, {}});
    return tensors_.back();
  }

  void AddParam(uint32_t i) {
    switch (param(i).role) {
      case Role::kEmbedding:
        return geometry_.vocab_parallel ? AddPaddedSlice(i, RolloutName(param(i)), 0)
                                        : AddPaddedSlice(i, RolloutName(param(i)), 1);
      case Role::kLmHead:
        return AddPaddedSlice(i, RolloutName(param(i)), 0);
      case Role::kQuery:
        return AddQkv(i);
      case Role::kKey:
      case Role::kValue:
        return;  // added with their query
      case Role::kOutput:
        return is_weight(i) ? AddOutput(i) : AddReplicated(i);
      case Role::kGate:
      case Role::kUp:
        return AddMlp(i, 0);
      case Role::kDown:
        return is_weight(i) ? AddMlp(i, 1) : AddReplicated(i);
      case Role::kRouter:
        AddWhole(Add(ExpertName(i, "router.linear_router"), param(i).shape), i, param(i).shape);
        return;
      case Role::kExpertGate:
        if (param(i).expert == 0) AddExperts(i);
        return;
      case Role::kExpertUp:
      case Role::kExpertDown:
        return;  // added with the gate of the first expert
      case Role::kHeadColumn:
      case Role::kColumn:
      case Role::kRow:
      case Role::kScore:
        return;  // of models without bundles: CheckFamily
      case Role::kFinalNorm:
      case Role::kQueryNorm:
      case Role::kKeyNorm:
      case Role::kReplicated:
        return AddReplicated(i);
    }
  }

  void AddReplicated(uint32_t i) {
    AddWhole(Add(RolloutName(param(i)), param(i).shape), i, param(i).shape);
  }

  // This rank's slice along `dim` of the parameter padded with zeros at the end to a multiple of
  // tp.
  void AddPaddedSlice(uint32_t i, std::string name, int dim) {
    const int64_t extent = param(i).shape[dim];
    const int64_t part = CeilTo(extent, geometry_.tp) / geometry_.tp;
    const int64_t from = std::min(rank_ * part, extent);
    const int64_t real = std::min(part, extent - from);
    Shape shape = param(i).shape;
    shape[dim] = part;
    TensorLayout& out = Add(std::move(name), shape);
    if (dim == 0)
      AddRows(out, i, param(i).shape, from, real, 0);
    else
      AddColumns(out, i, param(i).shape, from, real, 0);
    AddZeros(out, dim, real, part - real);
  }

  void AddMlp(uint32_t i, int dim) {
    AddPaddedSlice(i, RolloutName(param(i)), dim);
    if (geometry_.transposed_mlp && is_weight(i)) TransposeStored(tensors_.back());
  }

  std::string ExpertName(uint32_t i, std::string_view module) const {
    return fmt::format("layers.{}.mlp.{}.weight", param(i).layer, module);
  }

  void AddExperts(uint32_t gate) {
    const models::ExpertPart part = {geometry_.tp, rank_, 1, 0};
    tensors_.push_back(models::ExpertGateUp(model_, gate, part,
                                            ExpertName(gate, "expert_mlps.mlp_op.gate_up_proj")));
    tensors_.push_back(
        models::ExpertDown(model_, gate, part, ExpertName(gate, "expert_mlps.mlp_op.down_proj")));
  }

  uint32_t Partner(uint32_t i, std::string_view other) const {
    const std::string name = Replaced(param(i).name, ".q_proj.", other);
    for (uint32_t p = i; p < model_.params.size(); ++p)
      if (param(p).name == name) return p;
    NXDKIT_CHECK(false && "a family without the partner of a projection");
  }

  // Heads along `dim` from `at` on, padding slots as zeros; returns the place behind them.
  int64_t AddHeads(TensorLayout& out, uint32_t i, const std::vector<int64_t>& heads, int dim,
                   int64_t at) {
    const int64_t size = model_.config.head_dim;
    for (int64_t head : heads) {
      if (head == models::kZeroHead)
        AddZeros(out, dim, at, size);
      else if (dim == 0)
        AddRows(out, i, param(i).shape, head * size, size, at);
      else
        AddColumns(out, i, param(i).shape, head * size, size, at);
      at += size;
    }
    return at;
  }

  int64_t SlotRows(const std::vector<int64_t>& heads) const {
    return model_.config.head_dim * static_cast<int64_t>(heads.size());
  }

  void AddQkv(uint32_t q) {
    const uint32_t k = Partner(q, ".k_proj.");
    const uint32_t v = Partner(q, ".v_proj.");
    const std::pair<uint32_t, const std::vector<int64_t>*> parts[] = {
        {q, &heads_.query}, {k, &heads_.kv}, {v, &heads_.kv}};
    if (!geometry_.fused_qkv) {
      for (const auto& [i, heads] : parts) {
        Shape shape = param(i).shape;
        shape[0] = SlotRows(*heads);
        AddHeads(Add(RolloutName(param(i)), shape), i, *heads, 0, 0);
      }
      return;
    }
    Shape shape = param(q).shape;
    shape[0] = SlotRows(heads_.query) + 2 * SlotRows(heads_.kv);
    TensorLayout& out =
        Add(Replaced(RolloutName(param(q)), ".qkv_proj.q_proj.", ".qkv_proj.Wqkv."), shape);
    int64_t at = 0;
    for (const auto& [i, heads] : parts) at = AddHeads(out, i, *heads, 0, at);
    if (geometry_.transposed_qkv && is_weight(q)) TransposeStored(out);
  }

  void AddOutput(uint32_t i) {
    TensorLayout& out = Add(RolloutName(param(i)), {param(i).shape[0], SlotRows(heads_.query)});
    AddHeads(out, i, heads_.query, 1, 0);
    if (geometry_.transposed_output) TransposeStored(out);
  }

  void AddTiedHead() {
    for (uint32_t i = 0; i < model_.params.size(); ++i)
      if (param(i).role == Role::kEmbedding) AddPaddedSlice(i, "lm_head.weight", 0);
  }

  void AddRankTensor(std::string name) {
    TensorLayout& out = Add(std::move(name), {1});
    out.dtype = Dtype::kI32;
    out.fills.push_back({WholeBox({1}), rank_});
  }

  const models::Model& model_;
  const Geometry& geometry_;
  const models::RankHeads heads_;
  int64_t rank_;
  std::vector<TensorLayout> tensors_;
};

}  // namespace

Status CheckFamily(const models::ModelConfig& config) {
  if (config.labels > 0)
    return Error(Errc::kUnsupported,
                 fmt::format("a {} has a score head and no lm_head: no engine generates with it",
                             config.architecture));
  if (config.family->has_bundles) return OkStatus();
  return Error(Errc::kUnsupported,
               fmt::format("how rollout bundles hold a {} model is not known: it can be converted "
                           "between hf, torch and nxd",
                           config.family->model_type));
}

namespace {

// Models with experts are built without padding, but for their heads.
Status CheckExperts(const models::Model& model, const Geometry& geometry) {
  const models::ModelConfig& config = model.config;
  if (config.experts == 0) return OkStatus();
  NXDKIT_TRY(models::CheckExpertParts(config, geometry.tp, 1));
  for (const auto& [what, extent] :
       {std::pair{"hidden size", config.hidden}, std::pair{"vocabulary of", config.vocab}})
    if (extent % geometry.tp != 0)
      return Error(Errc::kUnsupported,
                   fmt::format("{} {} cannot be split evenly over tp {}; bundles of models with "
                               "experts are not padded",
                               what, extent, geometry.tp));
  if (geometry.transposed_mlp)
    return Error(Errc::kUnsupported,
                 "how mlp_kernel_enabled stores the experts of a model is not known");
  bool dense_layers = false;
  for (int64_t layer = 0; layer < config.layers; ++layer) dense_layers |= !config.IsSparse(layer);
  if (dense_layers && !TraitsOf(model, geometry).dense_layers)
    return Error(Errc::kUnsupported,
                 fmt::format("bundles of flavor {} know no {} layers without experts "
                             "(mlp_only_layers, decoder_sparse_step)",
                             FlavorName(geometry.flavor), config.family->model_type));
  return OkStatus();
}

}  // namespace

Result<std::vector<TensorLayout>> RankTensors(const models::Model& model, const Geometry& geometry,
                                              int rank) {
  if (rank < 0 || rank >= geometry.tp)
    return Error(Errc::kInternal, fmt::format("rank {} of tp {}", rank, geometry.tp));
  NXDKIT_TRY(CheckFamily(model.config));
  NXDKIT_TRY(CheckExperts(model, geometry));
  if (model.config.tied && !TraitsOf(model, geometry).ties)
    return Error(Errc::kUnsupported,
                 fmt::format("bundles of flavor {} know no {} model with tied embeddings",
                             FlavorName(geometry.flavor), model.config.family->model_type));
  return Builder(model, geometry, rank).Build();
}

std::string ShardFileName(int rank) {
  return fmt::format("tp{}_sharded_checkpoint.safetensors", rank);
}

}  // namespace nxdkit::rollout
