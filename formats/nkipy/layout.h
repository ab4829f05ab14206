// The rank files of vLLM with NKIPy: what shard_<r>.safetensors holds of a model. Derived from the
// vendor's script, not run against its engine: facts and limits in FORMAT.md beside this file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/models/gqa.h"
#include "formats/models/model.h"
#include "lib/plan/layout.h"

namespace nxdkit::nkipy {

// How the embedding is stored: older scripts give every rank all of it, newer ones columns.
enum class Embedding { kColumns, kWhole };

struct Geometry {
  int tp = 1;
  Embedding embedding = Embedding::kColumns;
};

std::string ShardFileName(int rank);                   // "shard_3.safetensors"
std::optional<int> RankOfFile(std::string_view name);  // of such a name
std::string_view EmbeddingName(Embedding embedding);   // "columns", "whole"
std::optional<Embedding> EmbeddingFromName(std::string_view name);

// The tensors of one rank, in the order of the model; matrices are stored transposed, but for the
// embedding. kUnsupported, naming the tensor, for a dimension that tp does not divide: the script
// would store it whole, in silence; and for heads that would meet other heads' keys.
Result<std::vector<TensorLayout>> RankTensors(const models::Model& model, const Geometry& geometry,
                                              int rank);

// The heads that lie on each rank.
Result<models::Placement> Heads(const models::ModelConfig& config, int tp);

}  // namespace nxdkit::nkipy
