// How NxD cuts LoRA adapters over tensor parallel ranks: as it cuts the adapted layers. A or B is
// cut along the layer's dimension, the other one is replicated. Facts: FORMAT.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/nxd/nxd_layout.h"

namespace nxdkit::nxd {

// The adapter of one of the model's parameters, as logical parameters of an adapter.
struct LoraPair {
  uint32_t a = 0;  // [rank, in]
  uint32_t b = 0;  // [out, rank]
  int64_t rank = 0;
};

// Which modules of NxD combine several of Hugging Face's: these share one A.
struct LoraSharing {
  bool qkv = false;
  bool gate_up = false;
};
LoraSharing SharingOf(const Geometry& geometry);

// The module that holds a parameter's A: "...self_attn.qkv_proj" for "...self_attn.q_proj.weight"
// when it is shared. nullopt unless NxD has an adapter of a known form for it: only for weights of
// linear layers.
std::optional<std::string> LoraModule(const models::Param& param, const LoraSharing& sharing);

// The tensors of tensor parallel rank `rank`, all pipeline stages, in the order of the modules; A
// before B. `pairs` has one entry per parameter of the model. A part of a fused B whose parameter
// has no adapter is zero. An all-zero B is stored in `dtype`. kUnsupported with the reason when the
// model or the adapter cannot be laid out in this way.
Result<std::vector<RankTensor>> LoraRankTensors(const models::Model& model,
                                                const Geometry& geometry,
                                                const std::vector<std::optional<LoraPair>>& pairs,
                                                Dtype dtype, int rank);

}  // namespace nxdkit::nxd
