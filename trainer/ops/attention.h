// Causal grouped-query attention over packed sequences, without dropout: softmax(q k^T / sqrt(D))
// v. Scores are made block by block and made again in the backward pass; nothing of size T x T is
// kept.
#pragma once

#include <cstdint>
#include <span>

#include "lib/error.h"

namespace nxdkit::trainer {

// scores [count]: all that a query may see. Leaves exp(score - lse) and returns lse, the log of the
// sum of exponents.
float Softmax(float* scores, int64_t count);

struct AttentionShape {
  int64_t heads = 0;     // query heads of this rank
  int64_t kv_heads = 0;  // divides heads; query head h meets key head h / (heads / kv_heads)
  int64_t width = 0;     // D
  // Floats from token to token.
  int64_t q_stride = 0;
  int64_t k_stride = 0;
  int64_t v_stride = 0;
  int64_t out_stride = 0;
};

// `starts` [sequences + 1]: sequence s holds tokens [starts[s], starts[s + 1]). q, k, v point to
// the first head of the first token. out [T, heads, D]; lse [T, heads] (log of the sum of exponents
// of the scaled scores) is kept for the backward pass.
Status AttentionForward(const AttentionShape& shape, std::span<const int32_t> starts,
                        const float* q, const float* k, const float* v, float* out, float* lse);

// dq, dk, dv lie like q, k, v and are set; dout and out as in the forward pass.
Status AttentionBackward(const AttentionShape& shape, std::span<const int32_t> starts,
                         const float* q, const float* k, const float* v, const float* out,
                         const float* lse, const float* dout, float* dq, float* dk, float* dv);

}  // namespace nxdkit::trainer
