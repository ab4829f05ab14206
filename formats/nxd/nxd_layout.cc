#include "formats/nxd/nxd_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

#include "formats/models/experts.h"
#include "formats/models/rank_tensors.h"
#include "lib/base/errors.h"

namespace nxdkit::nxd {

using models::Param;
using models::Partner;
using models::Replaced;
using models::Role;

std::string_view QkvStyleName(QkvStyle style) {
  constexpr std::array<std::string_view, 4> kNames = {"separate", "linear", "fused", "coalesced"};
  return kNames[static_cast<size_t>(style)];
}

namespace {

constexpr std::array<std::string_view, 3> kNameStyles = {"hf", "nxdt", "megatron"};

}  // namespace

std::string_view NameStyleName(NameStyle style) { return kNameStyles[static_cast<size_t>(style)]; }

std::optional<NameStyle> NameStyleFromName(std::string_view name) {
  const auto it = std::ranges::find(kNameStyles, name);
  if (it == kNameStyles.end()) return std::nullopt;
  return static_cast<NameStyle>(it - kNameStyles.begin());
}

Result<models::Placement> HeadPlacement(const models::ModelConfig& config,
                                        const Geometry& geometry) {
  const bool replicates = geometry.qkv == QkvStyle::kLinear || geometry.qkv == QkvStyle::kFused;
  if (geometry.names == NameStyle::kMegatron && geometry.kv_multiplier != 1)
    return Unsupported(
        "Megatron style sets have no replicated key heads; kv multiplier {} cannot be stored",
        geometry.kv_multiplier);
  if (!replicates && geometry.kv_multiplier != 1)
    return Unsupported("kv multiplier {} needs the linear or fused q/k/v style, not {}",
                       geometry.kv_multiplier, QkvStyleName(geometry.qkv));
  if (geometry.qkv == QkvStyle::kCoalesced && config.heads != config.kv_heads)
    return Unsupported(
        "the coalesced q/k/v style is for models with one key head per query head; this one has {} "
        "and {}",
        config.heads, config.kv_heads);
  if (!replicates || geometry.names == NameStyle::kMegatron)
    return models::PlainPlacement(config.heads, config.kv_heads, geometry.tp);
  return models::TrainingPlacement(config.heads, config.kv_heads, geometry.kv_multiplier,
                                   geometry.tp, geometry.hardware);
}

namespace {

// Substring renames from Hugging Face to NxDT's Megatron names, in this order, as the reference
// converter has them; but it renames the experts' projections too, to names that no module has.
constexpr std::pair<const char*, const char*> kMegatronNames[] = {
    {"model.embed_tokens.weight", "language_model.embedding.word_embeddings.weight"},
    {"model.norm.weight", "language_model.encoder.final_layernorm.weight"},
    {"lm_head.weight", "language_model.output_layer.weight"},
    {"model.layers.", "language_model.encoder.layers."},
    {"self_attn.", "self_attention."},
    {"o_proj.", "dense."},
    {".mlp.gate_up_proj.", ".mlp.dense_h_to_4h."},
    {".mlp.down_proj.", ".mlp.dense_4h_to_h."},
    {"qkv_proj.", "query_key_value."},
};

class Builder {
 public:
  Builder(const models::Model& model, const Geometry& geometry, const models::Placement& placement,
          int rank, int ep_rank)
      : model_(model),
        geometry_(geometry),
        heads_(placement[rank]),
        rank_(rank),
        ep_rank_(ep_rank) {}

  Result<std::vector<RankTensor>> Build(bool aliases) {
    for (uint32_t i = 0; i < model_.params.size(); ++i) {
      NXDKIT_TRY(AddParam(i));
    }
    if (aliases) NXDKIT_TRY(AddAliases());
    if (geometry_.names == NameStyle::kMegatron)
      for (RankTensor& tensor : tensors_)
        for (const auto& [from, to] : kMegatronNames)
          tensor.layout.name = Replaced(std::move(tensor.layout.name), from, to);
    return std::move(tensors_);
  }

 private:
  const Param& param(uint32_t i) const { return model_.params[i]; }

  Status AddParam(uint32_t i) {
    switch (param(i).role) {
      case Role::kEmbedding:
      case Role::kLmHead:
      case Role::kHeadColumn:
      case Role::kColumn:
        return AddSlice(i, 0);
      case Role::kQuery:
        AddQkv(i);
        return OkStatus();
      case Role::kKey:
      case Role::kValue:
        if (KeepsQkvApart()) AddHeads(i, param(i).name, {{i, &heads_.kv}});
        return OkStatus();  // otherwise added with their query
      case Role::kOutput:   // its columns follow the rows of q
        if (param(i).shape.size() == 2)
          AddHeads(i, param(i).name, {{i, &heads_.query}}, 1);
        else
          AddWhole(i, param(i).name);
        return OkStatus();
      case Role::kGate:
        return geometry_.fused_gate_up ? AddGateUp(i) : AddSlice(i, 0);
      case Role::kUp:
        return geometry_.fused_gate_up ? OkStatus() : AddSlice(i, 0);
      case Role::kDown:
      case Role::kRow:
        if (param(i).shape.size() == 2) return AddSlice(i, 1);
        AddWhole(i, param(i).name);
        return OkStatus();
      case Role::kRouter:
        AddWhole(i, ExpertName(i, "router.linear_router"));
        return OkStatus();
      case Role::kExpertGate:
        return param(i).expert == 0 ? AddExperts(i) : OkStatus();
      case Role::kExpertUp:
      case Role::kExpertDown:
        return OkStatus();  // added with the gate of the first expert
      case Role::kScore:
      case Role::kFinalNorm:
      case Role::kQueryNorm:
      case Role::kKeyNorm:
      case Role::kReplicated:
        AddWhole(i, param(i).name);
        return OkStatus();
    }
    return OkStatus();
  }

  // Three modules, each its weight before its bias.
  bool KeepsQkvApart() const {
    return geometry_.names != NameStyle::kMegatron && geometry_.qkv == QkvStyle::kSeparate;
  }

  RankTensor& Add(const Param& like, TensorLayout layout) {
    RankTensor& tensor = tensors_.emplace_back();
    tensor.layout = std::move(layout);
    tensor.layer = like.layer;
    if (like.layer >= 0)
      tensor.stage = RankTensor::Stage::kLayer;
    else if (like.role == Role::kEmbedding)
      tensor.stage = RankTensor::Stage::kFirst;
    else if (like.role == Role::kLmHead || like.role == Role::kScore ||
             like.role == Role::kFinalNorm)
      tensor.stage = RankTensor::Stage::kLast;
    return tensor;
  }

  void AddWhole(uint32_t i, std::string name) {
    Add(param(i), models::WholeTensor(model_, i, std::move(name)));
  }

  void AddHeads(uint32_t like, std::string name, const std::vector<models::HeadsOf>& parts,
                int dim = 0) {
    Add(param(like), models::HeadsTensor(model_, std::move(name), parts, dim));
  }

  Status CheckDivisible(uint32_t i, int dim) const {
    const int64_t extent = param(i).shape[dim];
    if (extent % geometry_.tp == 0) return OkStatus();
    return Unsupported("{} cannot be split evenly over tp {}; NxD training pads nothing", extent,
                       geometry_.tp)
        .on(param(i).name);
  }

  Status AddSlice(uint32_t i, int dim) {
    NXDKIT_TRY(CheckDivisible(i, dim));
    Add(param(i), models::SliceTensor(model_, i, param(i).name, dim, geometry_.tp, rank_));
    return OkStatus();
  }

  // Rows [gate_t; up_t], each a contiguous slice: a column parallel layer of stride 2.
  Status AddGateUp(uint32_t gate) {
    NXDKIT_TRY(CheckDivisible(gate, 0));
    const uint32_t up = Partner(model_, gate, "gate_proj.", "up_proj.");
    TensorLayout& out =
        Add(param(gate),
            models::SliceTensor(model_, gate,
                                Replaced(param(gate).name, "gate_proj.", "gate_up_proj."), 0,
                                geometry_.tp, rank_))
            .layout;
    const int64_t rows = out.shape[0];
    out.shape[0] = 2 * rows;
    AddRows(out, up, param(up).shape, rank_ * rows, rows, rows);
    return OkStatus();
  }

  std::string ExpertName(uint32_t i, std::string_view module) const {
    return fmt::format("model.layers.{}.mlp.{}{}.weight", param(i).layer,
                       geometry_.names == NameStyle::kHf ? "" : "moe.", module);
  }

  Status AddExperts(uint32_t gate) {
    NXDKIT_TRY(models::CheckExpertParts(model_.config, geometry_.tp, geometry_.ep));
    const models::ExpertPart part = {geometry_.tp, rank_, geometry_.ep, ep_rank_};
    for (TensorLayout& tensor :
         std::array{models::ExpertGateUp(model_, gate, part,
                                         ExpertName(gate, "expert_mlps.mlp_op.gate_up_proj")),
                    models::ExpertDown(model_, gate, part,
                                       ExpertName(gate, "expert_mlps.mlp_op.down_proj"))})
      Add(param(gate), std::move(tensor)).expert = true;
    return OkStatus();
  }

  // The weights or the biases, unless they are kept apart.
  void AddQkv(uint32_t q) {
    const std::string& own = param(q).name;  // ...self_attn.q_proj.weight or .bias
    if (KeepsQkvApart()) return AddHeads(q, own, {{q, &heads_.query}});
    const uint32_t k = Partner(model_, q, ".q_proj.", ".k_proj.");
    const uint32_t v = Partner(model_, q, ".q_proj.", ".v_proj.");
    const std::vector<models::HeadsOf> all = {{q, &heads_.query}, {k, &heads_.kv}, {v, &heads_.kv}};
    const std::string name = Replaced(own, ".q_proj.", ".qkv_proj.");
    if (geometry_.names == NameStyle::kMegatron) {
      if (model_.config.heads == model_.config.kv_heads) return AddHeads(q, name, all);
      AddHeads(q, Replaced(own, ".q_proj.", ".query."), {all[0]});
      AddHeads(k, Replaced(own, ".q_proj.", ".key_value."), {all[1], all[2]});
    } else if (geometry_.qkv == QkvStyle::kLinear) {
      AddHeads(q, name + "_q", {all[0]});
      AddHeads(k, name + "_k", {all[1]});
      AddHeads(v, name + "_v", {all[2]});
    } else {
      AddHeads(q, geometry_.qkv == QkvStyle::kFused ? name + "_qkv" : name, all);
    }
  }

  Status AddAliases() {
    for (const models::Alias& alias : model_.config.family->aliases) {
      const auto i = model_.Find(alias.of);
      if (!i || (alias.tied && !model_.config.tied)) continue;
      NXDKIT_TRY(AddParam(*i));
      tensors_.back().layout.name = alias.name;
      tensors_.back().stage = RankTensor::Stage::kLast;
    }
    return OkStatus();
  }

  const models::Model& model_;
  const Geometry& geometry_;
  const models::RankHeads& heads_;
  int64_t rank_;
  int64_t ep_rank_;
  std::vector<RankTensor> tensors_;
};

}  // namespace

Result<std::vector<RankTensor>> RankTensors(const models::Model& model, const Geometry& geometry,
                                            int rank, bool aliases, int ep_rank) {
  NXDKIT_ASSIGN(const models::Placement placement, HeadPlacement(model.config, geometry));
  return Builder(model, geometry, placement, rank, ep_rank).Build(aliases);
}

Result<int> PipelineRank(int64_t layer, int64_t layers, int pp, int vpp) {
  const int64_t stages = int64_t{pp} * vpp;
  if (layers < stages)
    return Unsupported("{} layers cannot fill {} pipeline stages (pp {} times vpp {})", layers,
                       stages, pp, vpp);
  const int64_t base = layers / stages;
  const int64_t small_stages = stages - layers % stages;  // these come first
  const int64_t in_small = small_stages * base;
  const int64_t stage =
      layer < in_small ? layer / base : small_stages + (layer - in_small) / (base + 1);
  return static_cast<int>(stage % pp);
}

bool OnPipelineRank(const RankTensor& tensor, int64_t layers, const Geometry& geometry,
                    int pp_rank) {
  switch (tensor.stage) {
    case RankTensor::Stage::kFirst:
      return pp_rank == 0;
    case RankTensor::Stage::kLast:
      return pp_rank == geometry.pp - 1;
    case RankTensor::Stage::kEvery:
      return true;
    case RankTensor::Stage::kLayer: {
      const Result<int> rank = PipelineRank(tensor.layer, layers, geometry.pp, geometry.vpp);
      return rank.ok() && *rank == pp_rank;
    }
  }
  return false;
}

std::string ShardFileName(int tp_rank, int pp_rank, std::optional<int> ep_rank) {
  return fmt::format("dp_rank_00_{}tp_rank_{:02d}_pp_rank_{:02d}.pt",
                     ep_rank ? fmt::format("ep_rank_{:02d}_", *ep_rank) : "", tp_rank, pp_rank);
}

}  // namespace nxdkit::nxd
