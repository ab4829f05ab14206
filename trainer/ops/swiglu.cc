#include "trainer/ops/swiglu.h"

#include "trainer/ops/lanes.h"
#include "trainer/ops/parallel.h"

namespace nxdkit::trainer {
namespace {

NXDKIT_CLONES void Forward(const float* gate, const float* up, int64_t width, float* act) {
  for (int64_t i = 0; i < width; ++i) act[i] = gate[i] * Sigmoid(gate[i]) * up[i];
}

NXDKIT_CLONES void Backward(const float* dact, const float* gate, const float* up, int64_t width,
                            float* dgate, float* dup) {
  for (int64_t i = 0; i < width; ++i) {
    const float s = Sigmoid(gate[i]);
    dgate[i] = dact[i] * up[i] * s * (1.0f + gate[i] * (1.0f - s));
    dup[i] = dact[i] * gate[i] * s;
  }
}

}  // namespace

void SwigluForward(int64_t tokens, int64_t width, const float* gate_up, float* act) {
  ParallelFor(tokens, 16, [&](int64_t t) {
    const float* row = gate_up + t * 2 * width;
    Forward(row, row + width, width, act + t * width);
  });
}

void SwigluBackward(int64_t tokens, int64_t width, const float* dact, const float* gate_up,
                    float* dgate_up) {
  ParallelFor(tokens, 16, [&](int64_t t) {
    const float* row = gate_up + t * 2 * width;
    float* drow = dgate_up + t * 2 * width;
    Backward(dact + t * width, row, row + width, width, drow, drow + width);
  });
}

}  // namespace nxdkit::trainer
