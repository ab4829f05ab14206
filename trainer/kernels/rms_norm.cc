#include "trainer/kernels/rms_norm.h"

#include <cmath>

#include "trainer/base/lanes.h"
#include "trainer/base/parallel.h"

namespace nxdkit::trainer {
namespace {

constexpr int64_t kGrain = 16;

template <typename Out>
NXDKIT_CLONES float Normalize(const float* x, const float* weight, float eps, int64_t width,
                              Out* y) {
  const float rstd = 1.0f / std::sqrt(Dot(x, x, width) / static_cast<float>(width) + eps);
  for (int64_t i = 0; i < width; ++i) Put(x[i] * rstd * weight[i], y + i);
  return rstd;
}

// dx = rstd * (h - xhat * mean(h * xhat)) with h = dy * w and xhat = x * rstd.
NXDKIT_CLONES void Backward(const float* dy, const float* x, const float* weight, float rstd,
                            int64_t width, float* dx, bool set) {
  Lanes sum = {};
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    Lanes d, w, v;
    Load(dy + i, d);
    Load(weight + i, w);
    Load(x + i, v);
    sum += d * w * v;
  }
  float dot = Fold(sum);
  for (; i < width; ++i) dot += dy[i] * weight[i] * x[i];
  const float mean = dot * rstd * rstd / static_cast<float>(width);
  if (set)
    for (i = 0; i < width; ++i) dx[i] = rstd * (dy[i] * weight[i] - x[i] * mean);
  else
    for (i = 0; i < width; ++i) dx[i] += rstd * (dy[i] * weight[i] - x[i] * mean);
}

NXDKIT_CLONES void AddWeightGradient(const float* dy, const float* x, float rstd, int64_t count,
                                     float* dweight) {
  for (int64_t i = 0; i < count; ++i) dweight[i] += dy[i] * x[i] * rstd;
}

}  // namespace

template <typename Out>
void RmsNormForward(const Rows& rows, const float* x, const float* weight, float eps, Out* y,
                    float* rstd) {
  ParallelFor(rows.tokens, kGrain, [&](int64_t t) {
    for (int64_t g = 0; g < rows.groups; ++g) {
      const int64_t at = t * rows.stride + g * rows.width;
      rstd[t * rows.groups + g] = Normalize(x + at, weight, eps, rows.width, y + at);
    }
  });
}

template void RmsNormForward(const Rows&, const float*, const float*, float, float*, float*);
template void RmsNormForward(const Rows&, const float*, const float*, float, uint16_t*, float*);

void RmsNormBackward(const Rows& rows, const float* dy, const float* x, const float* weight,
                     const float* rstd, float* dx, bool set, float* dweight) {
  // By columns, so that every sum adds the tokens in order.
  ParallelPieces(rows.width, 64, [&](int64_t first, int64_t end) {
    for (int64_t t = 0; t < rows.tokens; ++t)
      for (int64_t g = 0; g < rows.groups; ++g) {
        const int64_t at = t * rows.stride + g * rows.width + first;
        AddWeightGradient(dy + at, x + at, rstd[t * rows.groups + g], end - first, dweight + first);
      }
  });
  ParallelFor(rows.tokens, kGrain, [&](int64_t t) {
    for (int64_t g = 0; g < rows.groups; ++g) {
      const int64_t at = t * rows.stride + g * rows.width;
      Backward(dy + at, x + at, weight, rstd[t * rows.groups + g], rows.width, dx + at, set);
    }
  });
}

}  // namespace nxdkit::trainer
