// Loops over arrays of f32, on this rank's threads: sums, SwiGLU, and rows of an embedding.
#pragma once

#include <cstdint>
#include <span>

#include "lib/tensor/dtype.h"

namespace nxdkit::trainer {

void Copy(int64_t size, const float* from, float* to);
void Add(int64_t size, const float* from, float* to);  // to += from
// to [tokens, width] = from, row t times factors[t]; `to` may be `from`.
void ScaleRows(int64_t tokens, int64_t width, const float* factors, const float* from, float* to);
// Each row of rows [tokens, width] += vector [width].
void AddToRows(int64_t tokens, int64_t width, const float* vector, float* rows);
// sums [width] += sum over tokens of rows that are `stride` apart, in order.
void AddRowSums(int64_t tokens, int64_t width, int64_t stride, const float* rows, float* sums);
void AddRowSums(int64_t tokens, int64_t width, int64_t stride, const uint16_t* bf16_rows,
                float* sums);
void Narrow(int64_t size, const float* from, uint16_t* to);  // to bf16, to nearest even

// SwiGLU: act [T, I] = silu(gate) * up; gate_up [T, 2 I] holds [gate | up] per token. Out is float,
// or uint16_t: rounded to bf16, for operands of a following product.
template <typename Out>
void SwigluForward(int64_t tokens, int64_t width, const float* gate_up, Out* act);
// dact [T, I] -> dgate_up [T, 2 I], set.
template <typename Out>
void SwigluBackward(int64_t tokens, int64_t width, const float* dact, const float* gate_up,
                    Out* dgate_up);

// Vocabulary-parallel token embedding: this rank holds its rows [first_row, first_row + rows). out
// [T, H]: the token's row where this rank holds it, zero elsewhere; the sum over the ranks is the
// embedding. weight [rows, H], f32 or bf16.
void EmbeddingForward(std::span<const int32_t> ids, int64_t first_row, int64_t rows, int64_t width,
                      Dtype dtype, const void* weight, float* out);

// dweight [rows, H] += rows of dout [T, H], in the order of the tokens.
void EmbeddingBackward(std::span<const int32_t> ids, int64_t first_row, int64_t rows, int64_t width,
                       const float* dout, float* dweight);

// The score of each hidden state: scores [rows] = x [rows, width] * weight [width] + bias.
void ScoreForward(int64_t rows, int64_t width, const float* x, const float* weight, float bias,
                  float* scores);
// dx [rows, width] is set, dweight [width] added to, row by row.
void ScoreBackward(int64_t rows, int64_t width, const float* x, const float* weight,
                   const float* gradient, float* dx, float* dweight);

}  // namespace nxdkit::trainer
