// Loops over arrays of f32, on this rank's threads.
#pragma once

#include <cstdint>

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

// The score of each hidden state: scores [rows] = x [rows, width] * weight [width] + bias.
void ScoreForward(int64_t rows, int64_t width, const float* x, const float* weight, float bias,
                  float* scores);
// dx [rows, width] is set, dweight [width] added to, row by row.
void ScoreBackward(int64_t rows, int64_t width, const float* x, const float* weight,
                   const float* gradient, float* dx, float* dweight);

}  // namespace nxdkit::trainer
