// The optimizer of one rank: which arrays it keeps, by the names that checkpoints give them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/algo/optimizer.h"
#include "trainer/model/memory.h"
#include "trainer/model/weights.h"

namespace nxdkit::trainer {

struct OptimizerOptions {
  OptimizerType type = OptimizerType::kAdamW;
  AdamOptions adam;
  uint64_t seed = 1;  // of stochastic rounding
};

class RankOptimizer {
 public:
  // `table` and `weights` must outlive it. kUsage for bf16 optimizers over weights that are not.
  static Result<RankOptimizer> Make(const OptimizerOptions& options, const ParamTable& table,
                                    Weights& weights);

  // Updates the weights from gradients that are multiplied by step.scale.
  void Step(const AdamStep& step, std::span<const float> gradients);

  // The weights at full precision, where they are kept beside the ones that the model uses.
  std::optional<RankMemory> masters();
  // To be called when masters() was filled from outside: the model's weights follow.
  void MastersChanged();
  struct Entry {
    const char* name;  // "exp_avg", ...
    RankMemory memory;
  };
  std::vector<Entry> entries();
  int64_t step() const { return bf16_.m.empty() ? f32_.step : bf16_.step; }
  void set_step(int64_t step) { f32_.step = bf16_.step = step; }

 private:
  RankOptimizer(const OptimizerOptions& options, const ParamTable& table, Weights& weights)
      : options_(options), table_(&table), weights_(&weights) {}

  OptimizerOptions options_;
  const ParamTable* table_;
  Weights* weights_;
  AdamState f32_;              // kAdamW
  AdamBf16State bf16_;         // the others
  std::vector<float> master_;  // kAdamW over bf16 weights
};

}  // namespace nxdkit::trainer
