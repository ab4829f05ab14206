#include "trainer/model/layer.h"

#include "trainer/comm/reduce.h"
#include "trainer/kernels/elementwise.h"

namespace nxdkit::trainer {
namespace {

// Sizes of one rank's share.
struct Sizes {
  explicit Sizes(const LayerContext& context)
      : tokens(context.tokens()),
        hidden(context.config.model.config.hidden),
        head(context.config.model.config.head_dim),
        query(context.table.heads * head),
        key(context.table.kv_heads * head),
        wide(query + 2 * key),
        intermediate(context.table.intermediate) {}
  const int64_t tokens, hidden, head, query, key, wide, intermediate;
};

Status SumOverRanks(const LayerContext& context, float* values, int64_t size) {
  return AllReduceSum(context.tp, std::span(values, static_cast<size_t>(size)));
}

Rows HiddenRows(const Sizes& s) { return {s.tokens, 1, s.hidden, s.hidden}; }
Rows QueryRows(const LayerContext& context, const Sizes& s) {
  return {s.tokens, context.table.heads, s.head, s.wide};
}
Rows KeyRows(const LayerContext& context, const Sizes& s) {
  return {s.tokens, context.table.kv_heads, s.head, s.wide};
}

AttentionShape Shape(const LayerContext& context, const Sizes& s) {
  return {context.table.heads, context.table.kv_heads, s.head, s.wide, s.wide, s.wide, s.query,
          context.compute,     context.window};
}

// stream += sum over the ranks of `share`, and the bias once.
Status SumIntoStream(const LayerContext& context, const Sizes& s, const float* bias,
                     const float* stream, float* share) {
  NXDKIT_TRY(SumOverRanks(context, share, s.tokens * s.hidden));
  if (bias) AddToRows(s.tokens, s.hidden, bias, share);
  Add(s.tokens * s.hidden, stream, share);
  return OkStatus();
}

// q, k, v of n1; `rotated` gets the normed and rotated [q k], and v after it.
Status MakeQkv(const LayerContext& context, const LayerWeights& weights, const Sizes& s,
               LayerState& state) {
  float* qkv = state.qkv.Take(s.tokens * s.wide);
  NXDKIT_TRY(context.products.Multiply(s.tokens, s.wide, s.hidden, state.n1.matrix(),
                                       Transposed(weights.qkv), qkv, s.wide, false));
  if (weights.qkv_bias) AddToRows(s.tokens, s.wide, weights.qkv_bias, qkv);
  float* rotated = state.rotated.Take(s.tokens * s.wide);
  Copy(s.tokens * s.wide, qkv, rotated);
  const float eps = context.config.rms_eps;
  if (weights.q_norm) {
    RmsNormForward(QueryRows(context, s), qkv, weights.q_norm, eps, rotated,
                   state.q_rstd.Take(s.tokens * context.table.heads));
    RmsNormForward(KeyRows(context, s), qkv + s.query, weights.k_norm, eps, rotated + s.query,
                   state.k_rstd.Take(s.tokens * context.table.kv_heads));
  }
  RopeForward(QueryRows(context, s), context.positions, context.rope, rotated);
  RopeForward(KeyRows(context, s), context.positions, context.rope, rotated + s.query);
  return OkStatus();
}

Status AttentionPart(const LayerContext& context, const LayerWeights& weights, const Sizes& s,
                     const float* x, LayerState& state) {
  float* rstd = state.rstd1.Take(s.tokens);
  state.n1.Make(context.compute, s.tokens, s.hidden, [&](auto* to) {
    RmsNormForward(HiddenRows(s), x, weights.input_norm, context.config.rms_eps, to, rstd);
  });
  NXDKIT_TRY(MakeQkv(context, weights, s, state));
  float* out = state.context.Take(s.tokens * s.query);
  const float* rotated = state.rotated.data();
  AttentionForward(Shape(context, s), context.sequences, rotated, rotated + s.query,
                   rotated + s.query + s.key, out, state.lse.Take(s.tokens * context.table.heads),
                   context.scratch.attention);
  state.context_operand.Make(context.compute, out, s.tokens, s.query);
  float* x2 = state.x2.Take(s.tokens * s.hidden);
  NXDKIT_TRY(context.products.Multiply(s.tokens, s.hidden, s.query, state.context_operand.matrix(),
                                       Transposed(weights.o), x2, s.hidden, false));
  return SumIntoStream(context, s, weights.o_bias, x, x2);
}

Status MlpPart(const LayerContext& context, const LayerWeights& weights, const Sizes& s,
               LayerState& state) {
  float* rstd = state.rstd2.Take(s.tokens);
  state.n2.Make(context.compute, s.tokens, s.hidden, [&](auto* to) {
    RmsNormForward(HiddenRows(s), state.x2.data(), weights.post_norm, context.config.rms_eps, to,
                   rstd);
  });
  float* gate_up = state.gate_up.Take(s.tokens * 2 * s.intermediate);
  NXDKIT_TRY(context.products.Multiply(s.tokens, 2 * s.intermediate, s.hidden, state.n2.matrix(),
                                       Transposed(weights.gate_up), gate_up, 2 * s.intermediate,
                                       false));
  if (weights.gate_up_bias) AddToRows(s.tokens, 2 * s.intermediate, weights.gate_up_bias, gate_up);
  state.act.Make(context.compute, s.tokens, s.intermediate,
                 [&](auto* to) { SwigluForward(s.tokens, s.intermediate, gate_up, to); });
  return OkStatus();
}

// dx: the gradient of out, becomes that of x2.
Status MlpBackward(const LayerContext& context, const LayerWeights& weights, const Sizes& s,
                   LayerState& state, float* dx, const LayerGradients& gradients) {
  LayerScratch& scratch = context.scratch;
  MatrixEngine& products = context.products;
  const int64_t width = s.intermediate;
  if (gradients.down_bias) AddRowSums(s.tokens, s.hidden, s.hidden, dx, gradients.down_bias);
  const Matrix dout = scratch.operand.Make(context.compute, dx, s.tokens, s.hidden);
  NXDKIT_TRY(products.Multiply(s.hidden, width, s.tokens, Transposed(dout), state.act.matrix(),
                               gradients.down, width, true));
  float* dact = scratch.dact.Take(s.tokens * width);
  NXDKIT_TRY(products.Multiply(s.tokens, width, s.hidden, dout, weights.down, dact, width, false));
  const Matrix wide =
      scratch.operand.Make(context.compute, s.tokens, 2 * width, [&](auto* dgate_up) {
        SwigluBackward(s.tokens, width, dact, state.gate_up.data(), dgate_up);
        if (gradients.gate_up_bias)
          AddRowSums(s.tokens, 2 * width, 2 * width, dgate_up, gradients.gate_up_bias);
      });
  NXDKIT_TRY(products.Multiply(2 * width, s.hidden, s.tokens, Transposed(wide), state.n2.matrix(),
                               gradients.gate_up, s.hidden, true));
  float* dn2 = scratch.dhidden.Take(s.tokens * s.hidden);
  NXDKIT_TRY(products.Multiply(s.tokens, s.hidden, 2 * width, wide, weights.gate_up, dn2, s.hidden,
                               false));
  NXDKIT_TRY(SumOverRanks(context, dn2, s.tokens * s.hidden));
  RmsNormBackward(HiddenRows(s), dn2, state.x2.data(), weights.post_norm, state.rstd2.data(), dx,
                  false, gradients.post_norm);
  return OkStatus();
}

// Gradient of the rotated q and k -> gradient of the projections' outputs.
void HeadsBackward(const LayerContext& context, const LayerWeights& weights, const Sizes& s,
                   const LayerState& state, float* dqkv, const LayerGradients& gradients) {
  float* dk = dqkv + s.query;
  RopeBackward(QueryRows(context, s), context.positions, context.rope, dqkv);
  RopeBackward(KeyRows(context, s), context.positions, context.rope, dk);
  if (!weights.q_norm) return;
  const float* qkv = state.qkv.data();
  RmsNormBackward(QueryRows(context, s), dqkv, qkv, weights.q_norm, state.q_rstd.data(), dqkv, true,
                  gradients.q_norm);
  RmsNormBackward(KeyRows(context, s), dk, qkv + s.query, weights.k_norm, state.k_rstd.data(), dk,
                  true, gradients.k_norm);
}

void BiasBackward(const Sizes& s, const float* dqkv, const LayerGradients& gradients) {
  if (!gradients.q_bias) return;
  AddRowSums(s.tokens, s.query, s.wide, dqkv, gradients.q_bias);
  AddRowSums(s.tokens, s.key, s.wide, dqkv + s.query, gradients.k_bias);
  AddRowSums(s.tokens, s.key, s.wide, dqkv + s.query + s.key, gradients.v_bias);
}

// dx: the gradient of x2, becomes that of x.
Status AttentionPartBackward(const LayerContext& context, const LayerWeights& weights,
                             const Sizes& s, const float* x, LayerState& state, float* dx,
                             const LayerGradients& gradients) {
  LayerScratch& scratch = context.scratch;
  MatrixEngine& products = context.products;
  if (gradients.o_bias) AddRowSums(s.tokens, s.hidden, s.hidden, dx, gradients.o_bias);
  const Matrix dout = scratch.operand.Make(context.compute, dx, s.tokens, s.hidden);
  NXDKIT_TRY(products.Multiply(s.hidden, s.query, s.tokens, Transposed(dout),
                               state.context_operand.matrix(), gradients.o, s.query, true));
  float* dcontext = scratch.dcontext.Take(s.tokens * s.query);
  NXDKIT_TRY(
      products.Multiply(s.tokens, s.query, s.hidden, dout, weights.o, dcontext, s.query, false));
  float* dqkv = scratch.dqkv.Take(s.tokens * s.wide);
  const float* rotated = state.rotated.data();
  AttentionBackward(Shape(context, s), context.sequences, rotated, rotated + s.query,
                    rotated + s.query + s.key, state.context.data(), state.lse.data(), dcontext,
                    dqkv, dqkv + s.query, dqkv + s.query + s.key, scratch.attention);
  HeadsBackward(context, weights, s, state, dqkv, gradients);
  BiasBackward(s, dqkv, gradients);
  const Matrix wide = scratch.operand.Make(context.compute, dqkv, s.tokens, s.wide);
  NXDKIT_TRY(products.Multiply(s.wide, s.hidden, s.tokens, Transposed(wide), state.n1.matrix(),
                               gradients.qkv, s.hidden, true));
  float* dn1 = scratch.dhidden.Take(s.tokens * s.hidden);
  NXDKIT_TRY(
      products.Multiply(s.tokens, s.hidden, s.wide, wide, weights.qkv, dn1, s.hidden, false));
  NXDKIT_TRY(SumOverRanks(context, dn1, s.tokens * s.hidden));
  RmsNormBackward(HiddenRows(s), dn1, x, weights.input_norm, state.rstd1.data(), dx, false,
                  gradients.input_norm);
  return OkStatus();
}

}  // namespace

Matrix Operand::Make(Dtype compute, const float* values, int64_t rows, int64_t columns) {
  matrix_ = {values, Dtype::kF32, columns, false};
  if (compute == Dtype::kF32) return matrix_;
  uint16_t* narrow = narrow_.Take(rows * columns);
  Narrow(rows * columns, values, narrow);
  matrix_ = {narrow, Dtype::kBF16, columns, false};
  return matrix_;
}

Status LayerForward(const LayerContext& context, const LayerWeights& weights, const float* x,
                    float* out, LayerState& state) {
  const Sizes s(context);
  NXDKIT_TRY(AttentionPart(context, weights, s, x, state));
  NXDKIT_TRY(MlpPart(context, weights, s, state));
  if (!out) return OkStatus();
  NXDKIT_TRY(context.products.Multiply(s.tokens, s.hidden, s.intermediate, state.act.matrix(),
                                       Transposed(weights.down), out, s.hidden, false));
  return SumIntoStream(context, s, weights.down_bias, state.x2.data(), out);
}

Status LayerBackward(const LayerContext& context, const LayerWeights& weights, const float* x,
                     LayerState& state, float* dx, const LayerGradients& gradients) {
  const Sizes s(context);
  NXDKIT_TRY(MlpBackward(context, weights, s, state, dx, gradients));
  return AttentionPartBackward(context, weights, s, x, state, dx, gradients);
}

}  // namespace nxdkit::trainer
