// The rank files of vLLM with NKIPy: the tensors of a model in shard_<r>.safetensors. Derived from
// the vendor's script, not run against its engine: facts and limits in FORMAT.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/models/gqa.h"
#include "formats/models/model.h"
#include "lib/plan/layout.h"

namespace nxdkit::nkipy {

// How the embedding is stored: older scripts give every rank the whole, newer ones columns.
enum class Embedding { kColumns, kWhole };

struct Geometry {
  int tp = 1;
  Embedding embedding = Embedding::kColumns;
};

std::string ShardFileName(int rank);                   // "shard_3.safetensors"
std::optional<int> RankOfFile(std::string_view name);  // the inverse
std::string_view EmbeddingName(Embedding embedding);   // "columns", "whole"
std::optional<Embedding> EmbeddingFromName(std::string_view name);

// The tensors of one rank, in the order of the model; matrices are stored transposed, except the
// embedding. kUnsupported, naming the tensor, for a dimension that tp does not divide, which the
// script would silently store whole, and for query heads that would get other heads' keys.
Result<std::vector<TensorLayout>> RankTensors(const models::Model& model, const Geometry& geometry,
                                              int rank);

// The heads on each rank.
Result<models::Placement> Heads(const models::ModelConfig& config, int tp);

}  // namespace nxdkit::nkipy
