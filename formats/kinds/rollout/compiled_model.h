// Compares the model that a bundle was compiled for with another one, by names, shapes, element
// types and configurations.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "formats/artifact/finding.h"
#include "formats/models/model.h"
#include "formats/rollout/bundle.h"
#include "lib/tensor/output.h"

namespace nxdkit::kinds {

// A model's configuration as written in its file; text "" if there is none.
struct ConfigText {
  std::string text;
  std::string path;
};

// The configuration of the model that a bundle was compiled for: its config.json, else NxDI's
// merged file.
Result<ConfigText> CompiledModel(const rollout::Bundle& bundle);

// Compares the settings of a model that are compiled into a graph (sizes, heads, rope, norms,
// activation) and that both files have, as values. Heads stored by another GQA strategy on `tp`
// ranks are reported as such. kCorrupt for a file that is not a JSON object.
Result<std::vector<Finding>> CompareModels(const ConfigText& weights, const ConfigText& compiled,
                                           int64_t tp);

// Compares the tensors of one rank of the model with the bundle's shard for it.
std::vector<Finding> CompareShard(const TensorFile& compiled, int64_t rank,
                                  std::span<const OutputTensor> model);

// "8 query and 2 key heads stored as 8 and 8 (convert-to-mha)"
std::string HeadsText(const models::ModelConfig& config, int64_t tp);

}  // namespace nxdkit::kinds
