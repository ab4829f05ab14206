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
  std::span<float> gradient;  // set: gradient of the mini-batch's loss by values
};

// Means over the micro-batch: the loss by options.average, the rest over its tokens.
struct ValueMetrics {
  double vf_loss = 0;
  double clip_fraction = 0;  // tokens where the clipped error is larger: no gradient there
  double value_mean = 0;
  double loss = 0;  // this micro-batch's share of the mini-batch's loss
  int64_t tokens = 0;
};

// One micro-batch: 1/2 max((v - ret)^2, (clip(v) - ret)^2) with clip(v) within clip_range of the
// old value. Where both squares are equal and v is clipped, half of the gradient remains, as
// torch.max gives the other half to the clipped side. At the bounds of the clip itself the whole
// gradient passes, as on torch 2.13 (on 2.15 clamp passes half there with tensors as bounds, and
// none with numbers). Errors as ComputePolicyLoss.
Result<ValueMetrics> ComputeValueLoss(const ValueLossOptions& options, const MiniBatch& mini_batch,
                                      std::span<const ValueRow> rows);

}  // namespace nxdkit::trainer
