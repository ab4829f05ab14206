// Rules of a configuration that wait for the model.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/config/load.h"

namespace nxdkit::trainer {

// What of a model's config.json the parallelism depends on.
struct ModelFacts {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t vocab = 0;
  int64_t intermediate = 0;
  int64_t max_positions = 0;  // 0: not known
};

// Rules that need the model: heads, vocabulary and intermediate size over both tensor-parallel
// sizes, and P + R within its positions. The critic has those of training only.
std::vector<ConfigProblem> CheckModel(const LoadedConfig& loaded, const ModelFacts& model);
std::vector<ConfigProblem> CheckCriticModel(const LoadedConfig& loaded, const ModelFacts& model);

}  // namespace nxdkit::trainer
