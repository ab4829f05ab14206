#include "trainer/learner/rank_optimizer.h"

#include "lib/base/errors.h"
#include "trainer/kernels/elementwise.h"

namespace nxdkit::trainer {
template <typename T>
RankMemory RankOptimizer::MemoryOf(std::vector<T>& values, Dtype dtype) const {
  return {table_, dtype, {{range_, reinterpret_cast<std::byte*>(values.data())}}};
}

// Empty of an empty one: of weights in the other dtype.
template <typename T>
std::span<T> RankOptimizer::InRange(std::span<T> whole) const {
  if (whole.empty()) return whole;
  return whole.subspan(static_cast<size_t>(range_.begin), static_cast<size_t>(range_.size()));
}

Result<RankOptimizer> RankOptimizer::Make(const OptimizerOptions& options, const ParamTable& table,
                                          const FlatRange& range, Weights& weights) {
  RankOptimizer optimizer(options, table, range, weights);
  if (options.type == OptimizerType::kAdamW) {
    optimizer.f32_ = MakeAdamState(range);
    if (weights.dtype() == Dtype::kBF16)
      optimizer.master_.resize(static_cast<size_t>(range.size()));
    return optimizer;
  }
  if (weights.dtype() != Dtype::kBF16)
    return BadUsage("the bf16 optimizer needs bf16 weights")
        .hint("set worker.actor.compute_dtype=bf16, or optim.strategy=adamw");
  optimizer.bf16_ = MakeAdamBf16State(range);
  return optimizer;
}

void RankOptimizer::Step(const AdamStep& step, std::span<const float> gradients) {
  switch (options_.type) {
    case OptimizerType::kAdamW:
      UpdateAdamW(*table_, options_.adam, step, gradients, f32_,
                  weights_->dtype() == Dtype::kF32 ? InRange(weights_->f32()) : std::span(master_),
                  InRange(weights_->bf16()));
      break;
    case OptimizerType::kAdamWBf16:
      UpdateAdamWBf16(*table_, options_.adam, step, gradients, bf16_, InRange(weights_->bf16()));
      break;
    case OptimizerType::kAdamWBf16Fixed:
      UpdateAdamWBf16Fixed(*table_, options_.adam, step, options_.seed, gradients, bf16_,
                           InRange(weights_->bf16()));
      break;
  }
}

std::optional<RankMemory> RankOptimizer::masters() {
  const bool kept = options_.type == OptimizerType::kAdamW && weights_->dtype() == Dtype::kBF16;
  if (!kept) return std::nullopt;
  return MemoryOf(master_, Dtype::kF32);
}

void RankOptimizer::MastersChanged() {
  Narrow(range_.size(), master_.data(), InRange(weights_->bf16()).data());
}

std::vector<RankOptimizer::Entry> RankOptimizer::entries() {
  if (options_.type == OptimizerType::kAdamW)
    return {{"exp_avg", MemoryOf(f32_.m, Dtype::kF32)},
            {"exp_avg_sq", MemoryOf(f32_.v, Dtype::kF32)}};
  return {{"exp_avg", MemoryOf(bf16_.m, Dtype::kBF16)},
          {"exp_avg_sq", MemoryOf(bf16_.v, Dtype::kBF16)},
          {"compensation", MemoryOf(bf16_.c, Dtype::kBF16)}};
}

}  // namespace nxdkit::trainer
