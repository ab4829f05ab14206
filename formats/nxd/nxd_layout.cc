#include "formats/nxd/nxd_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "formats/models/experts.h"
#include "formats/models/rank_tensors.h"
#include "formats/models/view.h"
#include "lib/base/errors.h"

namespace nxdkit::nxd {

using models::Fused;
using models::Param;
using models::Replaced;
using models::Role;

std::string_view QkvStyleName(QkvStyle style) {
  constexpr std::array<std::string_view, 4> kNames = {"separate", "linear", "fused", "coalesced"};
  return kNames[static_cast<size_t>(style)];
}

namespace {

constexpr std::array<std::string_view, 3> kNameStyles = {"hf", "nxdt", "megatron"};

class Builder {
 public:
  Builder(const models::Model& model, const Geometry& geometry, const models::Placement& placement,
          int rank, int ep_rank)
      : model_(model),
        geometry_(geometry),
        heads_(placement[rank]),
        rank_(rank),
        ep_rank_(ep_rank),
        has_expert_layers_(std::ranges::count(model.params, Role::kExpertGate, &Param::role) > 0) {}

  Result<std::vector<RankTensor>> Build(bool aliases) {
    for (uint32_t i = 0; i < model_.params.size(); ++i) NXDKIT_TRY(AddParam(i));
    if (aliases) NXDKIT_TRY(AddAliases());
    if (geometry_.names == NameStyle::kMegatron)
      for (RankTensor& tensor : tensors_)
        tensor.layout.name =
            models::RenamedBy(*model_.config.family, kMegatronView, std::move(tensor.layout.name));
    return std::move(tensors_);
  }

 private:
  const Param& param(uint32_t i) const { return model_.params[i]; }

  // How the parameter is fused in this geometry.
  Fused FusedHere(uint32_t i) const {
    const Fused fused = models::RowOf(param(i).role).fused;
    const bool apart = (fused == Fused::kQkv && KeepsQkvApart()) ||
                       (fused == Fused::kGateUp && !geometry_.fused_gate_up);
    return apart ? Fused::kAlone : fused;
  }

  Status AddParam(uint32_t i) {
    const Fused fused = FusedHere(i);
    if (fused != Fused::kAlone && !param(i).Leads()) return OkStatus();
    if (fused == Fused::kExperts) return AddExperts(i);
    NXDKIT_TRY(CheckDivisible(i));
    if (fused == Fused::kQkv)
      AddQkv(i);
    else if (fused == Fused::kGateUp)  // rows [gate_t; up_t]: a column parallel layer of stride 2
      Add(i, Part(models::FusedWith(model_, i), models::FusedName(param(i))));
    else
      Add(i, Part({i}, NameOf(i)));
    return OkStatus();
  }

  // Three modules, each its weight before its bias.
  bool KeepsQkvApart() const {
    return geometry_.names != NameStyle::kMegatron && geometry_.qkv == QkvStyle::kSeparate;
  }

  RankTensor& Add(uint32_t like, TensorLayout layout) {
    RankTensor& tensor = tensors_.emplace_back();
    tensor.layout = std::move(layout);
    tensor.layer = param(like).layer;
    tensor.stage =
        tensor.layer >= 0 ? RankTensor::Stage::kLayer : models::RowOf(param(like).role).stage;
    return tensor;
  }

  void AddHeads(const std::vector<uint32_t>& params, std::string name) {
    Add(params.front(), Part(params, std::move(name)));
  }

  TensorLayout Part(const std::vector<uint32_t>& params, std::string name) const {
    return models::PartTensor(model_, params, std::move(name), {heads_, geometry_.tp, rank_});
  }

  Status CheckDivisible(uint32_t i) const {
    const int dim = param(i).CutDim();
    if (dim != models::kWhole && model_.cuts[param(i).cut].segments.empty() &&
        param(i).shape[static_cast<size_t>(dim)] % geometry_.tp != 0)
      return Unsupported("{} cannot be split evenly over tp {}; NxD training does not pad",
                         param(i).shape[static_cast<size_t>(dim)], geometry_.tp)
          .on(param(i).name);
    return models::CheckEven(model_, i, geometry_.tp);
  }

  std::string NameOf(uint32_t i) const {
    // In NxD's own layer of experts, which includes the router.
    const bool in_layer = param(i).role == Role::kRouter && has_expert_layers_;
    return in_layer ? ExpertName(i, "router.linear_router") : param(i).name;
  }

  std::string ExpertName(uint32_t i, std::string_view module) const {
    const std::string& name = param(i).name;
    return fmt::format("{}layers.{}.mlp.{}{}.weight", name.substr(0, name.find("layers.")),
                       param(i).layer, geometry_.names == NameStyle::kHf ? "" : "moe.", module);
  }

  Status AddExperts(uint32_t gate) {
    NXDKIT_TRY(models::CheckExpertParts(model_.config, geometry_.tp, geometry_.ep));
    const models::ExpertPart part = {geometry_.tp, rank_, geometry_.ep, ep_rank_};
    for (TensorLayout& tensor :
         std::array{models::ExpertGateUp(model_, gate, part,
                                         ExpertName(gate, "expert_mlps.mlp_op.gate_up_proj")),
                    models::ExpertDown(model_, gate, part,
                                       ExpertName(gate, "expert_mlps.mlp_op.down_proj"))})
      Add(gate, std::move(tensor)).expert = true;
    return OkStatus();
  }

  // The weights or the biases.
  void AddQkv(uint32_t q) {
    const std::vector<uint32_t> all = models::FusedWith(model_, q);
    const std::string& own = param(q).name;  // ...self_attn.q_proj.weight or .bias
    const std::string name = models::FusedName(param(q));
    if (geometry_.names == NameStyle::kMegatron) {
      if (model_.config.heads == model_.config.kv_heads) return AddHeads(all, name);
      AddHeads({q}, Replaced(own, ".q_proj.", ".query."));
      AddHeads({all.begin() + 1, all.end()}, Replaced(own, ".q_proj.", ".key_value."));
    } else if (geometry_.qkv == QkvStyle::kLinear) {
      for (size_t i = 0; i < all.size(); ++i) AddHeads({all[i]}, name + "_" + "qkv"[i]);
    } else {
      AddHeads(all, geometry_.qkv == QkvStyle::kFused ? name + "_qkv" : name);
    }
  }

  Status AddAliases() {
    for (const models::Alias& alias : model_.config.aliases) {
      const auto i = model_.Find(alias.of);
      if (!i) continue;
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
  bool has_expert_layers_;
  std::vector<RankTensor> tensors_;
};

}  // namespace

std::string_view NameStyleName(NameStyle style) { return kNameStyles[static_cast<size_t>(style)]; }

std::optional<NameStyle> NameStyleFromName(std::string_view name) {
  const auto it = std::ranges::find(kNameStyles, name);
  if (it == kNameStyles.end()) return std::nullopt;
  return static_cast<NameStyle>(it - kNameStyles.begin());
}

Result<models::Placement> HeadPlacement(const models::ModelConfig& config,
                                        const Geometry& geometry) {
  if (geometry.names == NameStyle::kMegatron && !models::HasView(*config.family, kMegatronView))
    return Unsupported(
        "NxDT has no {} models of Megatron's style: the text of the family has no line \"view "
        "nxdt_megatron\"",
        config.family->model_type);
  if (config.heads == 0) return models::Placement(static_cast<size_t>(geometry.tp));
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
  const bool plain = !replicates || geometry.names == NameStyle::kMegatron;
  if (plain) {
    Result<models::Placement> placed =
        models::PlainPlacement(config.heads, config.kv_heads, geometry.tp);
    if (placed.ok() || config.family->splits_qkv) return placed;
    return std::move(placed).error().hint(
        "the text of the family has no rows \"as query\": its key heads are not replicated");
  }
  return models::TrainingPlacement(config.heads, config.kv_heads, geometry.kv_multiplier,
                                   geometry.tp, geometry.hardware);
}

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
  const int64_t small_stages = stages - layers % stages;  // the smaller stages come first
  const int64_t in_small = small_stages * base;
  const int64_t stage =
      layer < in_small ? layer / base : small_stages + (layer - in_small) / (base + 1);
  return static_cast<int>(stage % pp);
}

bool OnPipelineRank(const RankTensor& tensor, int64_t layers, const Geometry& geometry,
                    int pp_rank) {
  if (tensor.stage == RankTensor::Stage::kEvery) return true;
  if (tensor.stage == RankTensor::Stage::kFirst) return pp_rank == 0;
  if (tensor.stage == RankTensor::Stage::kLast) return pp_rank == geometry.pp - 1;
  const Result<int> rank = PipelineRank(tensor.layer, layers, geometry.pp, geometry.vpp);
  return rank.ok() && *rank == pp_rank;
}

std::string ShardFileName(int tp_rank, int pp_rank, std::optional<int> ep_rank) {
  return fmt::format("dp_rank_00_{}tp_rank_{:02d}_pp_rank_{:02d}.pt",
                     ep_rank ? fmt::format("ep_rank_{:02d}_", *ep_rank) : "", tp_rank, pp_rank);
}

}  // namespace nxdkit::nxd
