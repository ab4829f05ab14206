// PRIVATE to trainer/model. One decoder layer of one tensor-parallel rank, forward and backward:
//
//   x2  = x  + o(attention(rope(norm(q)), rope(norm(k)), v))     q, k, v of RMSNorm(x)
//   out = x2 + down(silu(gate) * up)                             gate, up of RMSNorm(x2)
//
// with the bias of each projection if the model has one: those of o and down are added once, after
// the sum over the ranks. The two sums over the tensor-parallel ranks follow o and down; in the
// backward pass they follow the products with gate/up and with q/k/v. Residual stream and sums are
// f32, operands of products f32 or bf16.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/comm/comm.h"
#include "trainer/kernels/attention.h"
#include "trainer/kernels/matmul.h"
#include "trainer/kernels/rope.h"
#include "trainer/model/array.h"
#include "trainer/model/decoder_config.h"
#include "trainer/model/param_table.h"

namespace nxdkit::trainer {

// An operand of a product, packed: f32, or narrowed to bf16 in its own buffer.
class Operand {
 public:
  // `values` [rows, columns]; must outlive the use.
  Matrix Make(Dtype compute, const float* values, int64_t rows, int64_t columns);
  // fill(to) sets [rows, columns] of float or uint16_t.
  template <typename Fill>
  Matrix Make(Dtype compute, int64_t rows, int64_t columns, const Fill& fill) {
    if (compute == Dtype::kF32)
      fill(wide_.Take(rows * columns));
    else
      fill(narrow_.Take(rows * columns));
    const void* data =
        compute == Dtype::kF32 ? static_cast<const void*>(wide_.data()) : narrow_.data();
    return matrix_ = {data, compute, columns, false};
  }
  const Matrix& matrix() const { return matrix_; }

 private:
  Array<uint16_t> narrow_;
  Array<float> wide_;
  Matrix matrix_;
};

// Pointers to this rank's weights of one layer. Vectors are always f32.
struct LayerWeights {
  Matrix qkv, o, gate_up, down;
  const float* input_norm = nullptr;
  const float* post_norm = nullptr;
  const float* q_norm = nullptr;    // nullptr: none
  const float* k_norm = nullptr;    //
  const float* qkv_bias = nullptr;  // q, k, v consecutively; nullptr: none
  const float* o_bias = nullptr;
  const float* gate_up_bias = nullptr;  // consecutive
  const float* down_bias = nullptr;
};

// Destinations of the gradients: f32, added to.
struct LayerGradients {
  float *qkv = nullptr, *o = nullptr, *gate_up = nullptr, *down = nullptr;
  float *input_norm = nullptr, *post_norm = nullptr, *q_norm = nullptr, *k_norm = nullptr;
  float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr;
  float *o_bias = nullptr, *gate_up_bias = nullptr, *down_bias = nullptr;
};

// The state of a forward pass that the backward pass needs.
struct LayerState {
  Array<float> rstd1, qkv, rotated, q_rstd, k_rstd, context, lse, x2, rstd2, gate_up;
  Operand n1, context_operand, n2, act;
};

// Shared by all layers of a rank.
struct LayerScratch {
  Array<float> sum, dhidden, dact, dcontext, dqkv, dx2;
  Operand operand;
  AttentionScratch attention;
};

struct LayerContext {
  const DecoderConfig& config;
  const ParamTable& table;
  Dtype compute;
  Comm& tp;
  MatrixEngine& products;
  const RopeTable& rope;
  LayerScratch& scratch;
  // The batch:
  std::span<const int32_t> positions;  // [T]
  Sequences sequences;
  int64_t window = 0;  // of this layer (kernels/attention.h)
  int64_t tokens() const { return static_cast<int64_t>(positions.size()); }
};

// x [T, H] -> out [T, H]. With `out` nullptr, computes only the state for LayerBackward again.
Status LayerForward(const LayerContext& context, const LayerWeights& weights, const float* x,
                    float* out, LayerState& state);

// dx [T, H]: gradient of out on entry, of x on return.
Status LayerBackward(const LayerContext& context, const LayerWeights& weights, const float* x,
                     LayerState& state, float* dx, const LayerGradients& gradients);

}  // namespace nxdkit::trainer
