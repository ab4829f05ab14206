#include "formats/nxd/lora_layout.h"

#include "lib/base/errors.h"

#include <map>

namespace nxdkit::nxd {

using models::Param;
using models::Role;

LoraSharing SharingOf(const Geometry& geometry) {
  return {geometry.qkv != QkvStyle::kSeparate, geometry.fused_gate_up};
}

namespace {

// "a.b.weight_q" -> "a.b" and "weight_q".
std::pair<std::string, std::string> SplitName(const std::string& name) {
  const size_t dot = name.rfind('.');
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string WithLast(const std::string& module, std::string_view last) {
  return module.substr(0, module.rfind('.') + 1) + std::string(last);
}

struct LoraBuilder {
  struct Module {
    LoraPair pair;  // of one of its parameters; rank and A are common to all
    bool has_a;     // A is among the tensors
  };

  const models::Model& model;
  const std::vector<std::optional<LoraPair>>& pairs;
  const Dtype dtype;
  std::map<std::string, Module> modules = {};
  std::vector<RankTensor> tensors = {};

  std::vector<RankTensor> Build(const std::vector<RankTensor>& base) {
    for (const RankTensor& tensor : base)
      for (const Piece& piece : tensor.layout.pieces)
        if (const std::optional<LoraPair>& pair = PairOf(piece))
          modules.try_emplace(SplitName(tensor.layout.name).first, Module{*pair, false});
    for (const RankTensor& tensor : base) {
      const auto module = modules.find(SplitName(tensor.layout.name).first);
      if (module != modules.end() && tensor.layout.shape.size() == 2)
        Add(tensor, module->first, module->second);
    }
    return std::move(tensors);
  }

  const std::optional<LoraPair>& PairOf(const Piece& piece) const { return pairs[piece.param]; }

  // Adds the adapter of one of a module's weights: its B, and before the module's first B its A.
  void Add(const RankTensor& like, const std::string& name, Module& module) {
    const Param& param = model.params[like.layout.pieces.front().param];
    const std::string b = name + ".lora_B." + SplitName(like.layout.name).second;
    const std::string a = name + ".lora_A.weight";
    if (param.CutDim() == 1) {
      AddCut(like, a, 1, module.pair.rank);
      AddWhole(New(like, b, {param.shape[0], module.pair.rank}), module.pair.b,
               {param.shape[0], module.pair.rank});
      return;
    }
    const Shape shape = {module.pair.rank, param.shape[1]};
    if (!module.has_a) AddWhole(New(like, a, shape), module.pair.a, shape);
    module.has_a = true;
    AddCut(like, b, 0, module.pair.rank);
  }

  TensorLayout& New(const RankTensor& like, std::string name, Shape shape) {
    RankTensor tensor;
    tensor.stage = like.stage;
    tensor.layer = like.layer;
    tensor.layout.name = std::move(name);
    tensor.layout.shape = std::move(shape);
    tensors.push_back(std::move(tensor));
    return tensors.back().layout;
  }

  // Adds the layer's own pieces, with the rank as the dimension that is not cut.
  void AddCut(const RankTensor& like, std::string name, size_t dim, int64_t rank) {
    const size_t other = 1 - dim;
    Shape shape = like.layout.shape;
    shape[other] = rank;
    TensorLayout& out = New(like, std::move(name), std::move(shape));
    for (Piece piece : like.layout.pieces) {
      piece.logical.extent[other] = rank;
      if (const std::optional<LoraPair>& pair = PairOf(piece)) {
        piece.param = dim == 0 ? pair->b : pair->a;
        out.pieces.push_back(std::move(piece));
      } else {
        out.fills.push_back({StoredBox(piece, 2), 0});
      }
    }
    if (out.pieces.empty()) out.dtype = dtype;
  }
};

}  // namespace

std::optional<std::string> LoraModule(const Param& param, const LoraSharing& sharing) {
  if (param.shape.size() != 2 || !param.name.ends_with(".weight")) return std::nullopt;
  const std::string module = SplitName(param.name).first;
  const models::Fused fused = models::RowOf(param.role).fused;
  const bool qkv = fused == models::Fused::kQkv, gate_up = fused == models::Fused::kGateUp;
  if ((qkv && sharing.qkv) || (gate_up && sharing.gate_up))
    return WithLast(module, models::FusedModule(fused));
  if (qkv || gate_up || param.role == Role::kOutput || param.role == Role::kDown ||
      param.role == Role::kLmHead)
    return module;
  return std::nullopt;
}

Result<std::vector<RankTensor>> LoraRankTensors(const models::Model& model,
                                                const Geometry& geometry,
                                                const std::vector<std::optional<LoraPair>>& pairs,
                                                Dtype dtype, int rank) {
  if (geometry.names == NameStyle::kMegatron)
    return Unsupported("how adapters of NxDT's Megatron models are named and cut is not known");
  for (size_t i = 0; i < pairs.size(); ++i)
    if (pairs[i] && !LoraModule(model.params[i], SharingOf(geometry)))
      return Unsupported(
                 "how NxD stores an adapter of this parameter is not known: only those of linear "
                 "layers are")
          .on(model.params[i].name);
  NXDKIT_ASSIGN(const std::vector<RankTensor> base, RankTensors(model, geometry, rank, false));
  return LoraBuilder{model, pairs, dtype}.Build(base);
}

}  // namespace nxdkit::nxd
