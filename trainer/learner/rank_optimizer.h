// The optimizer of one rank, and its arrays under the names that checkpoints use. Over
// data-parallel ranks it is cut (ZeRO-1): each keeps the state of its ranges of the flat array, and
// updates the weights in those.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "trainer/algo/optimizer.h"
#include "trainer/model/memory.h"
#include "trainer/model/weights.h"

namespace nxdkit::trainer {

struct OptimizerOptions {
  OptimizerType type = OptimizerType::kAdamW;
  AdamOptions adam;
  uint64_t seed = 1;  // for stochastic rounding
};

class RankOptimizer {
 public:
  // `table` and `weights` must outlive it; `ranges`, one or more, come from CutForOptimizer. kUsage
  // for bf16 optimizers over weights that are not.
  static Result<RankOptimizer> Make(const OptimizerOptions& options, const ParamTable& table,
                                    std::vector<FlatRange> ranges, Weights& weights);

  const std::vector<FlatRange>& ranges() const { return ranges_; }
  // Updates the weights of the ranges from their gradients, multiplied by step.scale; `gradients`
  // is the whole flat array. Call Weights::Changed once the other ranks' weights have arrived too.
  void Step(const AdamStep& step, std::span<const float> gradients);

  // The ranges' weights at full precision, if they are kept next to those that the model uses.
  std::optional<RankMemory> masters();
  // Call it after filling masters() from outside: it updates the model's weights in the ranges.
  // Call Weights::Changed afterwards as after Step.
  void MastersChanged();
  struct Entry {
    const char* name;  // "exp_avg", ...
    RankMemory memory;
  };
  std::vector<Entry> entries();
  int64_t step() const { return f32_.empty() ? bf16_.front().step : f32_.front().step; }
  void set_step(int64_t step);

 private:
  RankOptimizer(const OptimizerOptions& options, const ParamTable& table,
                std::vector<FlatRange> ranges, Weights& weights)
      : options_(options), table_(&table), ranges_(std::move(ranges)), weights_(&weights) {}
  void StepRange(size_t index, const AdamStep& step, std::span<const float> gradients);
  // `get(i)`: the array of range i.
  template <typename Get>
  RankMemory MemoryOf(Dtype dtype, const Get& get) const;

  OptimizerOptions options_;
  const ParamTable* table_;
  std::vector<FlatRange> ranges_;
  Weights* weights_;
  // One for each range:
  std::vector<AdamState> f32_;              // kAdamW
  std::vector<AdamBf16State> bf16_;         // the others
  std::vector<std::vector<float>> master_;  // kAdamW over bf16 weights
};

}  // namespace nxdkit::trainer
