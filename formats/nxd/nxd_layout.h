// The layout of a model in NxD training shard sets: tensor parallel slices, fused projections,
// replicated key/value heads, pipeline stages. Facts and sources: FORMAT.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/models/gqa.h"
#include "formats/models/model.h"
#include "lib/plan/layout.h"

namespace nxdkit::nxd {

enum class QkvStyle : uint8_t {
  kSeparate,   // q_proj, k_proj, v_proj: plain column slices
  kLinear,     // qkv_proj.weight_q, weight_k, weight_v   (GQAQKVColumnParallelLinear)
  kFused,      // qkv_proj.weight_qkv = rows [q; k; v]     (the same with fuse_qkv)
  kCoalesced,  // qkv_proj.weight = rows [q; k; v], MHA    (ColumnParallelLinear, stride 3)
};
inline bool Fuses(QkvStyle style) {
  return style == QkvStyle::kFused || style == QkvStyle::kCoalesced;
}
std::string_view QkvStyleName(QkvStyle style);  // "separate", "linear", "fused", "coalesced"

enum class NameStyle : uint8_t {
  kHf,        // Hugging Face's; experts in mlp.router and mlp.expert_mlps
  kNxdt,      // the same, with experts in mlp.moe, as NxDT's models have them
  kMegatron,  // NxDT's Megatron models; experts in mlp.moe too
};
inline constexpr std::string_view kMegatronView = "nxdt_megatron";  // in the families' texts
std::string_view NameStyleName(NameStyle style);                    // "hf", "nxdt", "megatron"
std::optional<NameStyle> NameStyleFromName(std::string_view name);

// Properties of a layout that can be requested or claimed; absent: unspecified.
struct LayoutOptions {
  std::optional<int> tp, pp, vpp, ep, kv_multiplier;
  std::optional<QkvStyle> qkv;
  std::optional<models::Hardware> hardware;
  std::optional<NameStyle> names;
};

struct Geometry {
  int tp = 1;
  int pp = 1;
  int vpp = 1;
  int ep = 1;
  int kv_multiplier = 1;
  QkvStyle qkv = QkvStyle::kSeparate;
  models::Hardware hardware = models::Hardware::kTrn1;
  NameStyle names = NameStyle::kHf;
  bool fused_gate_up = true;  // gate_up_proj; false only when reading sets that store them apart
};

// One stored tensor of a tensor parallel rank, and the pipeline stages that hold it.
struct RankTensor {
  using Stage = models::Stage;
  TensorLayout layout;
  Stage stage = Stage::kEvery;
  int layer = -1;       // for kLayer
  bool expert = false;  // its experts are spread over expert parallel ranks
};

// The tensors of tensor parallel rank `rank`, all pipeline stages, in the order of the module's
// parameters: that of its state dict, and of the named_parameters that an optimizer gets. With
// expert parallelism the tensors of rank `ep_rank`: its own experts, and everything outside
// experts. `aliases`: include the family's aliases, such as the lm_head.weight of a tied model
// (training saves both; our writer and the reference converter store it once). kUnsupported with
// the reason when the model cannot be laid out in this way.
Result<std::vector<RankTensor>> RankTensors(const models::Model& model, const Geometry& geometry,
                                            int rank, bool aliases, int ep_rank = 0);

// Which rank holds which heads. kUnsupported as in RankTensors.
Result<models::Placement> HeadPlacement(const models::ModelConfig& config,
                                        const Geometry& geometry);

// Pipeline rank of a layer: pp * vpp stages, the last (layers mod stages) hold one layer more,
// stage s lives on rank s mod pp. kUnsupported when there are fewer layers than stages.
Result<int> PipelineRank(int64_t layer, int64_t layers, int pp, int vpp);

// Whether pipeline rank `pp_rank` holds the tensor. The layer count must allow the geometry.
bool OnPipelineRank(const RankTensor& tensor, int64_t layers, const Geometry& geometry,
                    int pp_rank);

// "dp_rank_00_tp_rank_03_pp_rank_00.pt"; with an ep rank "dp_rank_00_ep_rank_01_tp_rank_03_..."
std::string ShardFileName(int tp_rank, int pp_rank, std::optional<int> ep_rank = std::nullopt);

}  // namespace nxdkit::nxd
