#include "trainer/kernels/swiglu.h"

#include "trainer/base/lanes.h"
#include "trainer/base/parallel.h"

namespace nxdkit::trainer {
namespace {

template <typename Out>
NXDKIT_CLONES void Forward(const float* gate, const float* up, int64_t width, Out* act) {
  for (int64_t i = 0; i < width; ++i) Put(gate[i] * Sigmoid(gate[i]) * up[i], act + i);
}

template <typename Out>
NXDKIT_CLONES void Backward(const float* dact, const float* gate, const float* up, int64_t width,
                            Out* dgate, Out* dup) {
  for (int64_t i = 0; i < width; ++i) {
    const float s = Sigmoid(gate[i]);
    Put(dact[i] * up[i] * s * (1.0f + gate[i] * (1.0f - s)), dgate + i);
    Put(dact[i] * gate[i] * s, dup + i);
  }
}

}  // namespace

template <typename Out>
void SwigluForward(int64_t tokens, int64_t width, const float* gate_up, Out* act) {
  ParallelFor(tokens, 16, [&](int64_t t) {
    const float* row = gate_up + t * 2 * width;
    Forward(row, row + width, width, act + t * width);
  });
}

template void SwigluForward(int64_t, int64_t, const float*, float*);
template void SwigluForward(int64_t, int64_t, const float*, uint16_t*);

template <typename Out>
void SwigluBackward(int64_t tokens, int64_t width, const float* dact, const float* gate_up,
                    Out* dgate_up) {
  ParallelFor(tokens, 16, [&](int64_t t) {
    const float* row = gate_up + t * 2 * width;
    Out* drow = dgate_up + t * 2 * width;
    Backward(dact + t * width, row, row + width, width, drow, drow + width);
  });
}

template void SwigluBackward(int64_t, int64_t, const float*, const float*, float*);
template void SwigluBackward(int64_t, int64_t, const float*, const float*, uint16_t*);

}  // namespace nxdkit::trainer
