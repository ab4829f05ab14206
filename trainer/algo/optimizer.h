// AdamW over the flat arrays of one rank (trainer/model/param_table.h). Weight decay applies to
// every parameter. Gaps between slots are never read or written. Results do not depend on the
// number of threads or the instruction set, and copies of a parameter on several ranks stay equal.
//
// adamw             f32 master weights, m and v
// adamw_bf16        weights, m, v and a Kahan compensation c in bf16, every single operation
//                   rounded to bf16, as in the reference (AnyPrecisionAdamW). With beta2 0.999 its
//                   v can grow but never decay, and weight decay below lr * decay = 2e-3 does
//                   nothing
// adamw_bf16_fixed  the same 8 bytes of state, arithmetic in f32: m is rounded to nearest, v and c
//                   stochastically, so that they are right on average; decay goes into c
// In the bf16 variants the weight is p + c; p is what the model computes with.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "trainer/model/param_table.h"

namespace nxdkit::trainer {

enum class OptimizerType { kAdamW, kAdamWBf16, kAdamWBf16Fixed };
Result<OptimizerType> ParseOptimizerType(std::string_view name);  // worker.actor.optim.strategy

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
};

// Cuts a part of the flat array over data-parallel ranks (ZeRO-1), each of which keeps the state of
// its range and updates its weights. The part does not cut a slot. The ranges are consecutive; some
// may be empty. Updating the ranges one by one, however many, gives the same bits as one update of
// the whole.
std::vector<FlatRange> CutForOptimizer(const ParamTable& table, const FlatRange& part, int ranks);

// The state that a checkpoint saves: `step` counts the updates made, arrays are [range.size()].
struct AdamState {
  FlatRange range;
  int64_t step = 0;
  std::vector<float> m, v;
};
struct AdamBf16State {
  FlatRange range;
  int64_t step = 0;
  std::vector<uint16_t> m, v, c;
};
// `range`: one of those that CutForOptimizer returned.
AdamState MakeAdamState(const FlatRange& range);
AdamBf16State MakeAdamBf16State(const FlatRange& range);

// One update. `lr`: this step's rate; `scale`: the factor of the gradients (GradientClip).
struct AdamStep {
  double lr = 0;
  float scale = 1;
};

// All arrays cover the state's range. `master` is updated; `narrow`, if not empty, is set to master
// in bf16.
void UpdateAdamW(const ParamTable& table, const AdamOptions& options, const AdamStep& step,
                 std::span<const float> gradient, AdamState& state, std::span<float> master,
                 std::span<uint16_t> narrow = {});
// The gradient is rounded to bf16, scaled, and rounded again.
void UpdateAdamWBf16(const ParamTable& table, const AdamOptions& options, const AdamStep& step,
                     std::span<const float> gradient, AdamBf16State& state,
                     std::span<uint16_t> weights);
// The random bits depend on (seed, step, parameter, place in it): trainer/base/rng.h.
void UpdateAdamWBf16Fixed(const ParamTable& table, const AdamOptions& options, const AdamStep& step,
                          uint64_t seed, std::span<const float> gradient, AdamBf16State& state,
                          std::span<uint16_t> weights);

// The squared norm of a tensor-parallel rank's gradient, in f64, as terms to be added in order:
// those of `ranges`; the others are 0. `gradients` is the whole flat array. A slot that `copies`
// ranks hold counts as one share on each: the sum over the tensor-parallel ranks is the square of
// the global norm. A gradient that is not finite makes it infinite or NaN.
std::vector<double> SquaredNormTerms(const ParamTable& table, std::span<const FlatRange> ranges,
                                     std::span<const float> gradients);
double SumOfTerms(std::span<const double> terms);

struct GradientClip {
  double norm = 0;    // before clipping
  bool skip = false;  // the norm is not finite: no update, no step
  float scale = 1;    // min(1, max_norm / (norm + 1e-6))
};
GradientClip ClipGradient(double squared_norm, double max_norm);

}  // namespace nxdkit::trainer
