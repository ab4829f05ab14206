#include "trainer/kernels/score.h"

#include <algorithm>

#include "trainer/base/lanes.h"
#include "trainer/base/parallel.h"

namespace nxdkit::trainer {
namespace {

NXDKIT_CLONES float Product(const float* a, const float* b, int64_t count) {
  return Dot(a, b, count);
}

NXDKIT_CLONES void Scale(const float* from, float factor, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = factor * from[i];
}

NXDKIT_CLONES void AddScaled(const float* from, float factor, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

}  // namespace

void ScoreForward(int64_t rows, int64_t width, const float* x, const float* weight, float bias,
                  float* scores) {
  ParallelFor(rows, 16,
              [&](int64_t i) { scores[i] = Product(x + i * width, weight, width) + bias; });
}

void ScoreBackward(int64_t rows, int64_t width, const float* x, const float* weight,
                   const float* gradient, float* dx, float* dweight) {
  ParallelFor(rows, 16, [&](int64_t i) { Scale(weight, gradient[i], dx + i * width, width); });
  ParallelPieces(width, 256, [&](int64_t first, int64_t end) {
    for (int64_t i = 0; i < rows; ++i)
      AddScaled(x + i * width + first, gradient[i], dweight + first, end - first);
  });
}

}  // namespace nxdkit::trainer
