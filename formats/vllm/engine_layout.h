// The layout of a model in a running vLLM engine: the parameters of each tensor parallel rank, as
// its own loader makes them from a Hugging Face folder. A layout without files. Facts, versions and
// sources: FORMAT.md.
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
// this size, or the family's layout is not known.
Result<std::vector<TensorLayout>> RankTensors(const models::Model& model, const Geometry& geometry,
                                              int rank);

// The name of a rank's parameter in /weight_checker: "dp0:pp0:pcp0:tp3:model.norm.weight".
std::string CheckerKey(int rank, std::string_view name);

// The element type of the engine for `--dtype auto`: that of config.json, except that engines on
// CPUs turn float32 into bfloat16. BF16 where config.json has none.
Dtype EngineDtype(const models::ModelConfig& config);

}  // namespace nxdkit::vllm
