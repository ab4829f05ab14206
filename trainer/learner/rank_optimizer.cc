#include "trainer/learner/rank_optimizer.h"

#include "lib/base/errors.h"
#include "trainer/kernels/elementwise.h"

namespace nxdkit::trainer {
namespace {

RankMemory MemoryOf(const ParamTable& table, std::vector<float>& values) {
  return {&table, reinterpret_cast<std::byte*>(values.data()), Dtype::kF32};
}
RankMemory MemoryOf(const ParamTable& table, std::vector<uint16_t>& values) {
  return {&table, reinterpret_cast<std::byte*>(values.data()), Dtype::kBF16};
}

}  // namespace

Result<RankOptimizer> RankOptimizer::Make(const OptimizerOptions& options, const ParamTable& table,
                                          Weights& weights) {
  RankOptimizer optimizer(options, table, weights);
  if (options.type == OptimizerType::kAdamW) {
    optimizer.f32_ = MakeAdamState(table);
    if (weights.dtype() == Dtype::kBF16) optimizer.master_.resize(static_cast<size_t>(table.size));
    return optimizer;
  }
  if (weights.dtype() != Dtype::kBF16)
    return BadUsage("the bf16 optimizer needs bf16 weights")
        .hint("set worker.actor.compute_dtype=bf16, or optim.strategy=adamw");
  optimizer.bf16_ = MakeAdamBf16State(table);
  return optimizer;
}

void RankOptimizer::Step(const AdamStep& step, std::span<const float> gradients) {
  switch (options_.type) {
    case OptimizerType::kAdamW:
      UpdateAdamW(*table_, options_.adam, step, gradients, f32_,
                  master_.empty() ? weights_->f32() : std::span(master_), weights_->bf16());
      break;
    case OptimizerType::kAdamWBf16:
      UpdateAdamWBf16(*table_, options_.adam, step, gradients, bf16_, weights_->bf16());
      break;
    case OptimizerType::kAdamWBf16Fixed:
      UpdateAdamWBf16Fixed(*table_, options_.adam, step, options_.seed, gradients, bf16_,
                           weights_->bf16());
      break;
  }
  weights_->Changed();
}

std::optional<RankMemory> RankOptimizer::masters() {
  if (master_.empty()) return std::nullopt;
  return MemoryOf(*table_, master_);
}

void RankOptimizer::MastersChanged() {
  Narrow(table_->size, master_.data(), weights_->bf16().data());
  weights_->Changed();
}

std::vector<RankOptimizer::Entry> RankOptimizer::entries() {
  if (options_.type == OptimizerType::kAdamW)
    return {{"exp_avg", MemoryOf(*table_, f32_.m)}, {"exp_avg_sq", MemoryOf(*table_, f32_.v)}};
  return {{"exp_avg", MemoryOf(*table_, bf16_.m)},
          {"exp_avg_sq", MemoryOf(*table_, bf16_.v)},
          {"compensation", MemoryOf(*table_, bf16_.c)}};
}

}  // namespace nxdkit::trainer
