// Rules of a configuration that need the model.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/config/load.h"

namespace nxdkit::trainer {

// The facts of a model's config.json on which the parallelism depends.
struct ModelFacts {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t vocab = 0;
  int64_t intermediate = 0;
  int64_t max_positions = 0;  // 0: not known
};

// Checks that need the model: heads, vocabulary and intermediate size against both tensor-parallel
// sizes, and P + R within its positions. For the critic only those of training apply.
std::vector<ConfigProblem> CheckModel(const LoadedConfig& loaded, const ModelFacts& model);
std::vector<ConfigProblem> CheckCriticModel(const LoadedConfig& loaded, const ModelFacts& model);

}  // namespace nxdkit::trainer
