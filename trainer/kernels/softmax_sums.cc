#include "trainer/kernels/softmax_sums.h"

#include "trainer/base/lanes.h"

namespace nxdkit::trainer {

NXDKIT_CLONES float MaxOf(const float* values, int64_t count) { return Max(values, count); }

NXDKIT_CLONES void ExpOf(const float* values, int64_t count, float factor, float shift,
                         float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = Exp(values[i] * factor - shift);
}

NXDKIT_CLONES float SumOfExp(const float* values, int64_t count, float factor, float shift) {
  Lanes sum = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    float e[kLanes];
    for (int64_t k = 0; k < kLanes; ++k) e[k] = Exp(values[i + k] * factor - shift);
    Lanes lanes;
    Load(e, lanes);
    sum += lanes;
  }
  float rest = Fold(sum);
  for (; i < count; ++i) rest += Exp(values[i] * factor - shift);
  return rest;
}

}  // namespace nxdkit::trainer
