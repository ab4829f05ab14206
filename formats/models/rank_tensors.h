// The stored tensors of a model: whole, by Hugging Face, or those of one tensor parallel rank, in
// training sets and rollout bundles: slices, heads and whole parameters, as their roles require
// (role_table.h). The names are the format's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/models/gqa.h"
#include "formats/models/model.h"
#include "lib/plan/layout.h"

namespace nxdkit::models {

// `text` with the first `from` in it replaced, if there is one.
std::string Replaced(std::string text, std::string_view from, std::string_view to);

// `param`, which leads, and those fused with it: q, k and v, or gate and up; the weights for a
// weight, the biases for a bias.
std::vector<uint32_t> FusedWith(const Model& model, uint32_t param);
std::string FusedName(const Param& param);  // "a.q_proj.weight" -> "a.qkv_proj.weight".

// A tensor without contents yet.
TensorLayout EmptyTensor(std::string name, Shape shape);

// The whole parameter.
TensorLayout WholeTensor(const Model& model, uint32_t param, std::string name);

// Hugging Face's layout: one tensor per parameter, under its own name, in the model's order.
// `aliases`: also the family's aliases, such as the lm_head.weight of a tied model, as replicas.
std::vector<TensorLayout> HfTensors(const Model& model, bool aliases);

// The rank's slice along `dim` of the parameter, padded with zeros at the end to a multiple of tp.
TensorLayout SliceTensor(const Model& model, uint32_t param, std::string name, int dim, int64_t tp,
                         int64_t rank);

// The rank whose part is taken.
struct RankPart {
  const RankHeads& heads;
  int64_t tp = 1;
  int64_t rank = 0;
};

// The rank's parts of one or several parameters, one after another along the dimension that is cut,
// as their family cuts them: heads where `part` places them (a kZeroHead is zeros), otherwise an
// equal share, padded with zeros at the end where tp does not divide the units. A parameter that is
// not cut must be alone, and is whole.
TensorLayout PartTensor(const Model& model, const std::vector<uint32_t>& params, std::string name,
                        const RankPart& part);

// PartTensor for a single segment of one parameter's cut.
TensorLayout SegmentTensor(const Model& model, uint32_t param, size_t segment, std::string name,
                           const RankPart& part);

// kUnsupported where a cut of the parameter has units, other than heads, that tp does not divide
// and that ranks cannot share.
Status CheckEven(const Model& model, uint32_t param, int64_t tp);

}  // namespace nxdkit::models
