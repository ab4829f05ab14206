#include "formats/kinds/megatron/bucket_order.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace nxdkit::kinds {
namespace {

using Norm = RegistrationOrder::Norm;

constexpr RegistrationOrder kOrders[] = {{Norm::kFirst, false},     {Norm::kBeforeQkv, true},
                                         {Norm::kBeforeQkv, false}, {Norm::kAfterQkv, true},
                                         {Norm::kAfterQkv, false},  {Norm::kFirst, true}};

constexpr char kInputNorm[] = "input_layernorm.weight";
constexpr char kMlpNorm[] = "pre_mlp_layernorm.weight";
constexpr char kEmbedding[] = "embedding.word_embeddings.weight";

}  // namespace

std::span<const RegistrationOrder> RegistrationOrders() { return kOrders; }

// Norms fused with the weight after them come before that weight, or after it.
std::vector<std::string_view> StageLists::Attention(bool latent) const {
  const bool fused = order_.norm != Norm::kFirst;
  std::vector<std::string_view> names;
  const auto add = [&](std::initializer_list<const char*> more) {
    names.insert(names.end(), more.begin(), more.end());
  };
  if (order_.norm == Norm::kFirst || latent) add({kInputNorm});
  add({"self_attention.linear_proj.weight"});
  if (!latent) {
    if (order_.norm == Norm::kBeforeQkv) add({kInputNorm});
    add({"self_attention.linear_qkv.weight", "self_attention.linear_qkv.bias"});
    if (order_.norm == Norm::kAfterQkv) add({kInputNorm});
    add({"self_attention.q_layernorm.weight", "self_attention.k_layernorm.weight"});
    return names;
  }
  add({"self_attention.linear_q_proj.weight", "self_attention.linear_q_down_proj.weight"});
  if (fused) add({"self_attention.linear_q_up_proj.layer_norm_weight"});
  add({"self_attention.linear_q_up_proj.weight", "self_attention.linear_kv_down_proj.weight"});
  if (fused) add({"self_attention.linear_kv_up_proj.layer_norm_weight"});
  add({"self_attention.linear_kv_up_proj.weight"});
  if (!fused) add({"self_attention.q_layernorm.weight", "self_attention.kv_layernorm.weight"});
  return names;
}

void StageLists::Add(ParameterList& list, const LocalTensors::Place& place, int64_t rank) {
  std::optional<LocalTensor> found = local_.Find(place, rank);
  if (!found) return;
  const auto id = std::tuple(std::string(place.name), place.layer, place.expert, place.mtp, rank);
  list.push_back(&tensors_.emplace(id, *std::move(found)).first->second);
}

void StageLists::AddExperts(ParameterList& list, int64_t layer, bool mtp, int64_t first,
                            int64_t end, int64_t rank) {
  constexpr std::array<const char*, 2> kNames = {"mlp.experts.experts.linear_fc1.weight",
                                                 "mlp.experts.experts.linear_fc2.weight"};
  if (order_.by_projection) {
    for (const char* name : kNames)
      for (int64_t e = first; e < end; ++e) Add(list, {name, layer, e, mtp}, rank);
    return;
  }
  for (int64_t e = first; e < end; ++e)
    for (const char* name : kNames) Add(list, {name, layer, e, mtp}, rank);
}

void StageLists::AddLayerOf(ParameterList& list, int64_t layer, bool mtp, int64_t rank) {
  const auto has = [&](const char* name) {
    return local_.Find({name, layer, -1, mtp}, rank).has_value();
  };
  for (const std::string_view name : Attention(has("self_attention.linear_kv_down_proj.weight")))
    Add(list, {name, layer, -1, mtp}, rank);
  const bool last = order_.norm == Norm::kAfterQkv && has("mlp.linear_fc1.weight");
  if (!last) Add(list, {kMlpNorm, layer, -1, mtp}, rank);
  Add(list, {"mlp.router.weight", layer, -1, mtp}, rank);
  if (!experts_apart_) AddExperts(list, layer, mtp, 0, local_.experts(), rank);
  for (const char* name : {"mlp.shared_experts.gate_weight", "mlp.shared_experts.linear_fc1.weight",
                           "mlp.shared_experts.linear_fc2.weight", "mlp.linear_fc1.weight"})
    Add(list, {name, layer, -1, mtp}, rank);
  if (last) Add(list, {kMlpNorm, layer, -1, mtp}, rank);
  Add(list, {"mlp.linear_fc2.weight", layer, -1, mtp}, rank);
}

// Adds the parameters that follow the layers of the last stage.
void StageLists::AddEnd(ParameterList& list, bool is_first, int64_t rank) {
  Add(list, {"decoder.final_layernorm.weight"}, rank);
  for (int64_t m = 0; m < local_.mtp_layers(); ++m) {
    for (const char* name : {"enorm.weight", "hnorm.weight", "eh_proj.weight"})
      Add(list, {name, m, -1, true}, rank);
    AddLayerOf(list, m, true, rank);
    Add(list, {"final_layernorm.weight", m, -1, true}, rank);
  }
  const size_t before = list.size();
  Add(list, {"output_layer.weight"}, rank);
  // A tied model has a copy of the embedding instead.
  if (list.size() == before && !is_first) Add(list, {kEmbedding}, rank);
}

ParameterList StageLists::Stage(const StageLayers& stage, int64_t rank) {
  ParameterList list;
  // Multi-token prediction has a copy of the embedding in its stage.
  if (stage.is_first || (stage.is_last && local_.mtp_layers() > 0)) Add(list, {kEmbedding}, rank);
  for (int64_t layer = stage.first; layer < stage.end; ++layer) AddLayer(list, layer, rank);
  if (stage.is_last) AddEnd(list, stage.is_first, rank);
  return list;
}

ParameterList StageLists::Experts(const StageLayers& stage, int64_t first, int64_t end,
                                  int64_t rank) {
  ParameterList list;
  for (int64_t layer = stage.first; layer < stage.end; ++layer)
    AddExperts(list, layer, false, first, end, rank);
  if (stage.is_last)
    for (int64_t m = 0; m < local_.mtp_layers(); ++m) AddExperts(list, m, true, first, end, rank);
  return list;
}

}  // namespace nxdkit::kinds
