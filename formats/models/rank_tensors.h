// What is stored of a model: whole, by Hugging Face, or by one tensor parallel rank, in training
// sets and rollout bundles alike: slices, heads and whole parameters. Which of them a role asks
// for, under which name, is the format's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/models/gqa.h"
#include "formats/models/model.h"
#include "lib/plan/layout.h"

namespace nxdkit::models {

// `text` with the first `from` in it replaced, if there is one.
std::string Replaced(std::string text, std::string_view from, std::string_view to);

// The parameter that is stored with `param` (the k or v of a q, the up of a gate): its name with
// `from` replaced. It must be there, at or after `param`.
uint32_t Partner(const Model& model, uint32_t param, std::string_view from, std::string_view to);

// A tensor that nothing is stored in yet.
TensorLayout EmptyTensor(std::string name, Shape shape);

// The whole parameter.
TensorLayout WholeTensor(const Model& model, uint32_t param, std::string name);

// Hugging Face's layout: one tensor per parameter, under its own name, in the model's order.
// `aliases`: those of the family too, such as the lm_head.weight of a tied model, as replicas.
std::vector<TensorLayout> HfTensors(const Model& model, bool aliases);

// The rank's slice along `dim` of the parameter, padded with zeros at the end to a multiple of tp.
TensorLayout SliceTensor(const Model& model, uint32_t param, std::string name, int dim, int64_t tp,
                         int64_t rank);

// The heads of one or several projections, one after the other along `dim` (0: rows of q, k and v;
// 1: columns of o); a kZeroHead is zeros.
using HeadsOf = std::pair<uint32_t, const std::vector<int64_t>*>;  // a parameter, which heads
TensorLayout HeadsTensor(const Model& model, std::string name, const std::vector<HeadsOf>& parts,
                         int dim = 0);

}  // namespace nxdkit::models
