#include "trainer/learner/rank_optimizer.h"

#include "lib/base/errors.h"
#include "trainer/kernels/elementwise.h"

namespace nxdkit::trainer {
namespace {

// Empty if the array is: for weights in the other dtype.
template <typename T>
std::span<T> In(const FlatRange& range, std::span<T> whole) {
  if (whole.empty()) return whole;
  return whole.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
}

}  // namespace

template <typename Get>
RankMemory RankOptimizer::MemoryOf(Dtype dtype, const Get& get) const {
  std::vector<RankMemory::Part> parts;
  for (size_t i = 0; i < ranges_.size(); ++i)
    parts.push_back({ranges_[i], reinterpret_cast<std::byte*>(get(i).data())});
  return {table_, dtype, std::move(parts)};
}

Result<RankOptimizer> RankOptimizer::Make(const OptimizerOptions& options, const ParamTable& table,
                                          std::vector<FlatRange> ranges, Weights& weights) {
  NXDKIT_CHECK(!ranges.empty());
  RankOptimizer optimizer(options, table, std::move(ranges), weights);
  const bool narrow = weights.dtype() == Dtype::kBF16;
  if (options.type != OptimizerType::kAdamW && !narrow)
    return BadUsage("the bf16 optimizer needs bf16 weights")
        .hint("set worker.actor.compute_dtype=bf16, or optim.strategy=adamw");
  for (const FlatRange& range : optimizer.ranges_) {
    if (options.type != OptimizerType::kAdamW) {
      optimizer.bf16_.push_back(MakeAdamBf16State(range));
      continue;
    }
    optimizer.f32_.push_back(MakeAdamState(range));
    if (narrow) optimizer.master_.emplace_back(static_cast<size_t>(range.size()));
  }
  return optimizer;
}

void RankOptimizer::Step(const AdamStep& step, std::span<const float> gradients) {
  for (size_t i = 0; i < ranges_.size(); ++i) StepRange(i, step, In(ranges_[i], gradients));
}

void RankOptimizer::StepRange(size_t index, const AdamStep& step,
                              std::span<const float> gradients) {
  const std::span<uint16_t> narrow = In(ranges_[index], weights_->bf16());
  switch (options_.type) {
    case OptimizerType::kAdamW:
      UpdateAdamW(*table_, options_.adam, step, gradients, f32_[index],
                  master_.empty() ? In(ranges_[index], weights_->f32()) : std::span(master_[index]),
                  narrow);
      break;
    case OptimizerType::kAdamWBf16:
      UpdateAdamWBf16(*table_, options_.adam, step, gradients, bf16_[index], narrow);
      break;
    case OptimizerType::kAdamWBf16Fixed:
      UpdateAdamWBf16Fixed(*table_, options_.adam, step, options_.seed, gradients, bf16_[index],
                           narrow);
      break;
  }
}

void RankOptimizer::set_step(int64_t step) {
  for (AdamState& state : f32_) state.step = step;
  for (AdamBf16State& state : bf16_) state.step = step;
}

std::optional<RankMemory> RankOptimizer::masters() {
  if (master_.empty()) return std::nullopt;
  return MemoryOf(
      Dtype::kF32, [&](size_t i) -> auto& { return master_[i]; });
}

void RankOptimizer::MastersChanged() {
  for (size_t i = 0; i < ranges_.size(); ++i)
    Narrow(ranges_[i].size(), master_[i].data(), In(ranges_[i], weights_->bf16()).data());
}

std::vector<RankOptimizer::Entry> RankOptimizer::entries() {
  if (options_.type == OptimizerType::kAdamW)
    return {{"exp_avg", MemoryOf(
                            Dtype::kF32, [&](size_t i) -> auto& { return f32_[i].m; })},
            {"exp_avg_sq", MemoryOf(
                               Dtype::kF32, [&](size_t i) -> auto& { return f32_[i].v; })}};
  return {{"exp_avg", MemoryOf(
                          Dtype::kBF16, [&](size_t i) -> auto& { return bf16_[i].m; })},
          {"exp_avg_sq", MemoryOf(
                             Dtype::kBF16, [&](size_t i) -> auto& { return bf16_[i].v; })},
          {"compensation", MemoryOf(
                               Dtype::kBF16, [&](size_t i) -> auto& { return bf16_[i].c; })}};
}

}  // namespace nxdkit::trainer
