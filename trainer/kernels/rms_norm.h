// RMSNorm: y = w * x / sqrt(mean(x^2) + eps), over the last dimension.
//
// Dimension letters of trainer/: T tokens (packed, no padding), H hidden, I intermediate, V
// vocabulary rows, D head dimension, E rows of q, k and v together; all for this rank's share.
#pragma once

#include <cstdint>

namespace nxdkit::trainer {

// Vectors of `width` floats: group g of token t begins at t * stride + g * width. The final norms
// have one group of width H and stride H; the norms of heads have one group per head.
struct Rows {
  int64_t tokens = 0;
  int64_t groups = 1;
  int64_t width = 0;
  int64_t stride = 0;
};

// weight [width]; rstd [tokens, groups] is kept for the backward pass. y may be x; both are
// laid out as `rows` says. Out is float, or uint16_t: rounded to bf16.
template <typename Out>
void RmsNormForward(const Rows& rows, const float* x, const float* weight, float eps, Out* y,
                    float* rstd);

// dx += gradient of x (or = , with `set`), dweight [width] += gradient of weight. x is the input
// of the forward pass. dx may be dy with `set`. x, dy and dx are laid out as `rows` says.
void RmsNormBackward(const Rows& rows, const float* dy, const float* x, const float* weight,
                     const float* rstd, float* dx, bool set, float* dweight);

}  // namespace nxdkit::trainer
