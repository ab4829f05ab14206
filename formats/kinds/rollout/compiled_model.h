// What a bundle was compiled for, held against a model, from names, shapes, element types and
// configurations.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "formats/artifact/finding.h"
#include "formats/models/model.h"
#include "formats/rollout/bundle.h"
#include "lib/tensor/output.h"

namespace nxdkit::kinds {

// A model's configuration as its file says it; text "" when there is none.
struct ConfigText {
  std::string text;
  std::string path;
};

// The configuration of the model a bundle was compiled for: its config.json, else NxDI's merged
// file.
Result<ConfigText> CompiledModel(const rollout::Bundle& bundle);

// The settings of a model that are compiled into a graph (sizes, heads, rope, norms, activation),
// where both files have them, compared as values. Heads that are stored by another GQA strategy on
// `tp` ranks are named so. kCorrupt for a file that is not a JSON object.
Result<std::vector<Finding>> CompareModels(const ConfigText& weights, const ConfigText& compiled,
                                           int64_t tp);

// The tensors of one rank of the model against the shard that the bundle has for it.
std::vector<Finding> CompareShard(const TensorFile& compiled, int64_t rank,
                                  std::span<const OutputTensor> model);

// "8 query and 2 key heads stored as 8 and 8 (convert-to-mha)"
std::string HeadsText(const models::ModelConfig& config, int64_t tp);

}  // namespace nxdkit::kinds
