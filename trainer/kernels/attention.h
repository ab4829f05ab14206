// Causal grouped-query attention over packed sequences, without dropout: softmax(q k^T / sqrt(D))
// v. A sequence may continue another one, so that the answers to one prompt share a single copy of
// it.
//
// Scores are computed a few rows at a time, and again in the backward pass; nothing of size T x T
// is kept, and future tokens are computed only where they share a tile with the past.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/tensor/dtype.h"

namespace nxdkit::trainer {

// scores [count]: those of all visible tokens. Leaves exp(score - lse) and returns lse, the log of
// the sum of exponentials.
float Softmax(float* scores, int64_t count);

struct AttentionShape {
  int64_t heads = 0;     // query heads of this rank
  int64_t kv_heads = 0;  // divides heads; query head h meets key head h / (heads / kv_heads)
  int64_t width = 0;     // D, even
  // Distance between tokens, in floats.
  int64_t q_stride = 0;
  int64_t k_stride = 0;
  int64_t v_stride = 0;
  int64_t out_stride = 0;
  // kBF16: the operands of the products are rounded to bf16; sums and softmax are f32.
  Dtype compute = Dtype::kF32;
  // The number of past tokens that a token sees, itself included; 0: all.
  int64_t window = 0;
};

// Sequence s holds tokens [starts[s], starts[s + 1]). They also see all tokens of sequence
// parents[s], an earlier one without a parent of its own, unless that is -1. Empty: all are -1.
struct Sequences {
  std::span<const int32_t> starts;   // [sequences + 1]
  std::span<const int32_t> parents;  // [sequences]
};

// Memory of the loops, kept between calls: one buffer per thread.
using AttentionScratch = std::vector<std::vector<std::byte>>;

// q, k, v point to the first head of the first token. out [T, heads, D]; lse [T, heads] (the log of
// the sum of exponentials of the scaled scores) is kept for the backward pass.
void AttentionForward(const AttentionShape& shape, const Sequences& sequences, const float* q,
                      const float* k, const float* v, float* out, float* lse,
                      AttentionScratch& scratch);

// dq, dk, dv are laid out like q, k, v and are set; dout and out as in the forward pass.
void AttentionBackward(const AttentionShape& shape, const Sequences& sequences, const float* q,
                       const float* k, const float* v, const float* out, const float* lse,
                       const float* dout, float* dq, float* dk, float* dv,
                       AttentionScratch& scratch);

}  // namespace nxdkit::trainer
