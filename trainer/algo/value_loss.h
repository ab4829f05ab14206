// The critic's loss: half the squared error of its values, clipped to stay near the old ones.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/algo/loss_average.h"

namespace nxdkit::trainer {

struct ValueLossOptions {
  LossAverage average = LossAverage::kToken;
  double clip_range = 0.5;  // critic.cliprange_value
};

// One response; every span has one element per valid token.
struct ValueRow {
  std::span<const float> values;
  std::span<const float> old_values;
  std::span<const float> returns;
  std::span<float> gradient;  // set: of the mini-batch's loss, by values
};

// Means over the micro-batch: the loss by options.average, the others over its tokens.
struct ValueMetrics {
  double vf_loss = 0;
  double clip_fraction = 0;  // tokens where the clipped error is the larger one: no gradient there
  double value_mean = 0;
  double loss = 0;  // this micro-batch's part of the loss of the mini-batch
  int64_t tokens = 0;
};

// One micro-batch: 1/2 max((v - ret)^2, (clip(v) - ret)^2) with clip(v) within clip_range of the
// old value. Where both squares are equal and v is clipped, half of the gradient is left, as
// torch.max gives the other half to the clipped side; at the bounds of the clip itself it passes
// whole, as on torch 2.13 (on 2.15 the gradient of clamp there is half of it with tensors as
// bounds, and 0 with numbers). Errors as ComputePolicyLoss.
Result<ValueMetrics> ComputeValueLoss(const ValueLossOptions& options, const MiniBatch& mini_batch,
                                      std::span<const ValueRow> rows);

}  // namespace nxdkit::trainer
