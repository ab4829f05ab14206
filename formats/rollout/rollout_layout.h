// The layout of a model in rollout bundles (NxDI and optimum-neuron) over tensor parallel ranks.
// Facts and sources: FORMAT.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/models/gqa.h"
#include "formats/models/model.h"
#include "lib/plan/layout.h"

namespace nxdkit::rollout {

// The program that makes and reads the bundle.
enum class Flavor : uint8_t { kOptimum, kNxdi };
std::string_view FlavorName(Flavor flavor);  // "optimum", "nxdi"

struct Geometry {
  int tp = 1;
  Flavor flavor = Flavor::kOptimum;
  bool fused_qkv = false;
  bool vocab_parallel = false;  // NxDI: embedding split over rows instead of columns
  // NxDI kernel flags: the stored tensor is transposed.
  bool transposed_qkv = false;
  bool transposed_output = false;
  bool transposed_mlp = false;
  // NxDI: expert layers hold their rank (blockwise_matmul_config of neuron_config.json).
  bool expert_ranks = true;
};

// The tensors of one rank, in the order of the model's state dict. Names have no leading "model.".
// Padding heads, vocabulary, hidden and intermediate columns are zero fills; rank tensors are I32
// constants. A tied model stores lm_head.weight as a replica of the embedding. kUnsupported with
// the reason when there are experts and something cannot be split evenly (such models are not
// padded, except their heads), or the flavor's program cannot hold the model.
Result<std::vector<TensorLayout>> RankTensors(const models::Model& model, const Geometry& geometry,
                                              int rank);

// kUnsupported, naming the family, when no known program makes bundles of it.
Status CheckFamily(const models::ModelConfig& config);

std::string ShardFileName(int rank);  // "tp3_sharded_checkpoint.safetensors"

}  // namespace nxdkit::rollout
