// The score of each hidden state: its product with one vector. All arrays f32.
#pragma once

#include <cstdint>

namespace nxdkit::trainer {

// scores [rows] = x [rows, width] * weight [width] + bias.
void ScoreForward(int64_t rows, int64_t width, const float* x, const float* weight, float bias,
                  float* scores);
// dx [rows, width] is set, dweight [width] added to, row by row.
void ScoreBackward(int64_t rows, int64_t width, const float* x, const float* weight,
                   const float* gradient, float* dx, float* dweight);

}  // namespace nxdkit::trainer
