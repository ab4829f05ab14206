// NxD's layout of the experts of one layer, in training sets and rollout bundles: two tensors of
// rank 3, [expert, in, out], where Hugging Face has [out, in] for each expert.
//
//   mlp_op.gate_up_proj.weight  [E, hidden, 2 I / tp]   columns: gate of the rank, then up
//   mlp_op.down_proj.weight     [E, I / tp, hidden]
//
// I is the experts' intermediate size. Expert parallel rank e of ep holds experts [e E / ep, ...).
// Source: NxD 0.18, ExpertFusedColumnParallelLinear (stride 2) and ExpertFusedRowParallelLinear.
#pragma once

#include <string>

#include "formats/models/model.h"
#include "lib/plan/layout.h"

namespace nxdkit::models {

// The part of the experts that one rank holds.
struct ExpertPart {
  int64_t tp = 1;
  int64_t tp_rank = 0;
  int64_t ep = 1;
  int64_t ep_rank = 0;
};

// kUnsupported when the experts, or their columns, cannot be split evenly: nothing is padded.
Status CheckExpertParts(const ModelConfig& config, int64_t tp, int64_t ep);

// `first` is the layer's first parameter of an expert (expert 0). The parts must be even.
TensorLayout ExpertGateUp(const Model& model, uint32_t first, const ExpertPart& part,
                          std::string name);
TensorLayout ExpertDown(const Model& model, uint32_t first, const ExpertPart& part,
                        std::string name);

}  // namespace nxdkit::models
