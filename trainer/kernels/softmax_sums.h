// Parts of a softmax over a long row, for drawing from it.
#pragma once

#include <cstdint>

namespace nxdkit::trainer {

float MaxOf(const float* values, int64_t count);
// out [count] = exp(values * factor - shift); the sum of them.
void ExpOf(const float* values, int64_t count, float factor, float shift, float* out);
float SumOfExp(const float* values, int64_t count, float factor, float shift);

}  // namespace nxdkit::trainer
