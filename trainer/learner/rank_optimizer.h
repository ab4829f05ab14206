// The optimizer of one rank: which arrays it keeps, by the names that checkpoints give them. Over
// data-parallel ranks it is cut (ZeRO-1): each keeps the state of its range of the flat array, and
// updates that range of the weights.
#pragma once

#include <algorithm>
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
  // `table` and `weights` must outlive it; `range` is one of CutForOptimizer. kUsage for bf16
  // optimizers over weights that are not.
  static Result<RankOptimizer> Make(const OptimizerOptions& options, const ParamTable& table,
                                    const FlatRange& range, Weights& weights);

  const FlatRange& range() const { return range_; }
  // Updates the weights of the range from its gradients, multiplied by step.scale. When the other
  // ranks' weights are there too, Weights::Changed must be told.
  void Step(const AdamStep& step, std::span<const float> gradients);

  // The range's weights at full precision, where they are kept beside the ones that the model uses.
  std::optional<RankMemory> masters();
  // To be called when masters() was filled from outside: the model's weights of the range follow,
  // and Weights::Changed is to be told as after Step.
  void MastersChanged();
  struct Entry {
    const char* name;  // "exp_avg", ...
    RankMemory memory;
  };
  std::vector<Entry> entries();
  int64_t step() const { return std::max(f32_.step, bf16_.step); }
  void set_step(int64_t step) { f32_.step = bf16_.step = step; }

 private:
  RankOptimizer(const OptimizerOptions& options, const ParamTable& table, const FlatRange& range,
                Weights& weights)
      : options_(options), table_(&table), range_(range), weights_(&weights) {}
  template <typename T>
  RankMemory MemoryOf(std::vector<T>& values, Dtype dtype) const;
  template <typename T>
  std::span<T> InRange(std::span<T> whole) const;

  OptimizerOptions options_;
  const ParamTable* table_;
  FlatRange range_;
  Weights* weights_;
  AdamState f32_;              // kAdamW
  AdamBf16State bf16_;         // the others
  std::vector<float> master_;  // kAdamW over bf16 weights
};

}  // namespace nxdkit::trainer
