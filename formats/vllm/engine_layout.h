// How a running vLLM engine holds a model: the parameters of each tensor parallel rank, as its own
// loader makes them of a Hugging Face folder. A layout without files. Facts, versions and what
// holds each: FORMAT.md beside this file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/models/model.h"
#include "lib/plan/layout.h"

namespace nxdkit::vllm {

struct Geometry {
  int tp = 1;
  bool expert_parallel = false;  // --enable-expert-parallel: whole experts, spread over the ranks
};

// The parameters of one rank in the order of the model, under the engine's names. The last rows of
// the vocabulary are zero padding. kUnsupported, with the reason, when vLLM refuses the model at
// this size, or how it holds the family is not known.
Result<std::vector<TensorLayout>> RankTensors(const models::Model& model, const Geometry& geometry,
                                              int rank);

// How /weight_checker names a parameter of a rank: "dp0:pp0:pcp0:tp3:model.norm.weight".
std::string CheckerKey(int rank, std::string_view name);

// The element type of the engine for `--dtype auto`: that of config.json, but for float32, of which
// engines on CPUs make bfloat16. BF16 where config.json says none.
Dtype EngineDtype(const models::ModelConfig& config);

}  // namespace nxdkit::vllm
