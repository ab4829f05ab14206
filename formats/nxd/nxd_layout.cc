#include "formats/nxd/nxd_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

#include "formats/models/experts.h"

namespace nxdkit::nxd {

using models::Param;
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
    return Error(Errc::kUnsupported,
                 fmt::format("Megatron style sets have no replicated key heads; "
                             "kv multiplier {} cannot be stored",
                             geometry.kv_multiplier));
  if (!replicates && geometry.kv_multiplier != 1)
    return Error(Errc::kUnsupported,
                 fmt::format("kv multiplier {} needs the linear or fused q/k/v style, not {}",
                             geometry.kv_multiplier, QkvStyleName(geometry.qkv)));
  if (geometry.qkv == QkvStyle::kCoalesced && config.heads != config.kv_heads)
    return Error(Errc::kUnsupported,
                 fmt::format("the coalesced q/k/v style is for models with one key head "
                             "per query head; this one has {} and {}",
                             config.heads, config.kv_heads));
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

void Replace(std::string& text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  Replace(text, from, to);
  return text;
}

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
        for (const auto& [from, to] : kMegatronNames) Replace(tensor.layout.name, from, to);
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
        return AddRowSlice(i, param(i).name);
      case Role::kQuery:
        return AddQkv(i);
      case Role::kKey:
      case Role::kValue:
        if (KeepsQkvApart()) AddProjections(param(i), param(i).name, {{i, &heads_.kv}});
        return OkStatus();  // otherwise added with their query
      case Role::kOutput:
        return param(i).shape.size() == 2 ? AddOutput(i) : AddReplicated(i);
      case Role::kGate:
        return AddGateUp(i);
      case Role::kUp:
        return geometry_.fused_gate_up ? OkStatus() : AddRowSlice(i, param(i).name);
      case Role::kDown:
      case Role::kRow:
        return param(i).shape.size() == 2 ? AddColumnSlice(i) : AddReplicated(i);
      case Role::kRouter:
        AddWhole(Add(param(i), ExpertName(i, "router.linear_router"), param(i).shape).layout, i,
                 param(i).shape);
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
        return AddReplicated(i);
    }
    return OkStatus();
  }

  // Three modules, each its weight before its bias.
  bool KeepsQkvApart() const {
    return geometry_.names != NameStyle::kMegatron && geometry_.qkv == QkvStyle::kSeparate;
  }

  RankTensor& Add(const Param& like, std::string name, Shape shape) {
    RankTensor tensor;
    tensor.layout.name = std::move(name);
    tensor.layout.shape = std::move(shape);
    tensor.layer = like.layer;
    if (like.layer >= 0)
      tensor.stage = RankTensor::Stage::kLayer;
    else if (like.role == Role::kEmbedding)
      tensor.stage = RankTensor::Stage::kFirst;
    else if (like.role == Role::kLmHead || like.role == Role::kScore ||
             like.role == Role::kFinalNorm)
      tensor.stage = RankTensor::Stage::kLast;
    tensors_.push_back(std::move(tensor));
    return tensors_.back();
  }

  Error NotDivisible(const Param& like, int64_t extent) const {
    return Error(Errc::kUnsupported,
                 fmt::format("{} cannot be split evenly over tp {}; NxD training pads nothing",
                             extent, geometry_.tp))
        .on(like.name);
  }

  Status AddReplicated(uint32_t i) {
    AddWhole(Add(param(i), param(i).name, param(i).shape).layout, i, param(i).shape);
    return OkStatus();
  }

  Status AddRowSlice(uint32_t i, std::string name) {
    Shape shape = param(i).shape;
    if (shape[0] % geometry_.tp != 0) return NotDivisible(param(i), shape[0]);
    const int64_t rows = shape[0] / geometry_.tp;
    shape[0] = rows;
    AddRows(Add(param(i), std::move(name), shape).layout, i, param(i).shape, rank_ * rows, rows, 0);
    return OkStatus();
  }

  Status AddColumnSlice(uint32_t i) {
    Shape shape = param(i).shape;
    if (shape[1] % geometry_.tp != 0) return NotDivisible(param(i), shape[1]);
    const int64_t columns = shape[1] / geometry_.tp;
    shape[1] = columns;
    AddColumns(Add(param(i), param(i).name, shape).layout, i, param(i).shape, rank_ * columns,
               columns, 0);
    return OkStatus();
  }

  // Rows [gate_t; up_t], each a contiguous slice: a column parallel layer of stride 2.
  Status AddGateUp(uint32_t gate) {
    if (!geometry_.fused_gate_up) return AddRowSlice(gate, param(gate).name);
    const uint32_t up = Partner(gate, "gate_proj.", "up_proj.");
    Shape shape = param(gate).shape;
    if (shape[0] % geometry_.tp != 0) return NotDivisible(param(gate), shape[0]);
    const int64_t rows = shape[0] / geometry_.tp;
    shape[0] = 2 * rows;
    TensorLayout& out =
        Add(param(gate), Replaced(param(gate).name, "gate_proj.", "gate_up_proj."), shape).layout;
    AddRows(out, gate, param(gate).shape, rank_ * rows, rows, 0);
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
                                       ExpertName(gate, "expert_mlps.mlp_op.down_proj"))}) {
      RankTensor& out = Add(param(gate), tensor.name, tensor.shape);
      out.layout = std::move(tensor);
      out.expert = true;
    }
    return OkStatus();
  }

  // The k or v of a q, the up of a gate.
  uint32_t Partner(uint32_t i, std::string_view own, std::string_view other) const {
    const std::string name = Replaced(param(i).name, own, other);
    for (uint32_t p = i; p < model_.params.size(); ++p)
      if (param(p).name == name) return p;
    NXDKIT_CHECK(false && "a family without the partner of a projection");
  }

  // Appends the heads of one projection at row `at`; returns the row behind them.
  int64_t AddHeads(TensorLayout& out, uint32_t i, const std::vector<int64_t>& heads, int64_t at) {
    const int64_t rows = model_.config.head_dim;
    for (int64_t head : heads) {
      AddRows(out, i, param(i).shape, head * rows, rows, at);
      at += rows;
    }
    return at;
  }

  void AddProjections(const Param& like, std::string name,
                      const std::vector<std::pair<uint32_t, const std::vector<int64_t>*>>& parts) {
    Shape shape = like.shape;
    shape[0] = 0;
    for (const auto& [i, heads] : parts)
      shape[0] += model_.config.head_dim * static_cast<int64_t>(heads->size());
    TensorLayout& out = Add(like, std::move(name), shape).layout;
    int64_t at = 0;
    for (const auto& [i, heads] : parts) at = AddHeads(out, i, *heads, at);
  }

  Status AddQkv(uint32_t q) {
    if (KeepsQkvApart()) {
      AddProjections(param(q), param(q).name, {{q, &heads_.query}});
      return OkStatus();
    }
    const uint32_t k = Partner(q, ".q_proj.", ".k_proj.");
    const uint32_t v = Partner(q, ".q_proj.", ".v_proj.");
    const std::string& name = param(q).name;  // ...self_attn.q_proj.weight or .bias
    if (geometry_.names == NameStyle::kMegatron) return AddMegatronQkv(q, k, v);
    switch (geometry_.qkv) {
      case QkvStyle::kSeparate:
        return OkStatus();  // above
      case QkvStyle::kLinear:
        AddProjections(param(q), Replaced(name, ".q_proj.", ".qkv_proj.") + "_q",
                       {{q, &heads_.query}});
        AddProjections(param(k), Replaced(name, ".q_proj.", ".qkv_proj.") + "_k",
                       {{k, &heads_.kv}});
        AddProjections(param(v), Replaced(name, ".q_proj.", ".qkv_proj.") + "_v",
                       {{v, &heads_.kv}});
        return OkStatus();
      case QkvStyle::kFused:
        AddProjections(param(q), Replaced(name, ".q_proj.", ".qkv_proj.") + "_qkv",
                       {{q, &heads_.query}, {k, &heads_.kv}, {v, &heads_.kv}});
        return OkStatus();
      case QkvStyle::kCoalesced:
        AddProjections(param(q), Replaced(name, ".q_proj.", ".qkv_proj."),
                       {{q, &heads_.query}, {k, &heads_.kv}, {v, &heads_.kv}});
        return OkStatus();
    }
    return OkStatus();
  }

  Status AddMegatronQkv(uint32_t q, uint32_t k, uint32_t v) {
    const std::string& name = param(q).name;
    if (model_.config.heads == model_.config.kv_heads) {
      AddProjections(param(q), Replaced(name, ".q_proj.", ".qkv_proj."),
                     {{q, &heads_.query}, {k, &heads_.kv}, {v, &heads_.kv}});
      return OkStatus();
    }
    AddProjections(param(q), Replaced(name, ".q_proj.", ".query."), {{q, &heads_.query}});
    AddProjections(param(k), Replaced(name, ".q_proj.", ".key_value."),
                   {{k, &heads_.kv}, {v, &heads_.kv}});
    return OkStatus();
  }

  // Columns of o_proj follow the rows of q.
  Status AddOutput(uint32_t i) {
    const int64_t columns = model_.config.head_dim;
    const Shape shape = {param(i).shape[0], columns * static_cast<int64_t>(heads_.query.size())};
    TensorLayout& out = Add(param(i), param(i).name, shape).layout;
    int64_t at = 0;
    for (int64_t head : heads_.query) {
      AddColumns(out, i, param(i).shape, head * columns, columns, at);
      at += columns;
    }
    return OkStatus();
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
    return Error(Errc::kUnsupported,
                 fmt::format("{} layers cannot fill {} pipeline stages (pp {} times vpp {})",
                             layers, stages, pp, vpp));
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
