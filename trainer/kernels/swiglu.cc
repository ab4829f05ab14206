#include "trainer/kernels/swiglu.h"

#include "trainer/base/lanes.h"
#include "trainer/base/parallel.h"

namespace nxdkit::trainer {
namespace {

template <typename Out>
NXDKIT_INLINE void ForwardInto(const float* gate, const float* up, int64_t width, Out* act) {
  for (int64_t i = 0; i < width; ++i) Put(gate[i] * Sigmoid(gate[i]) * up[i], act + i);
}

template <typename Out>
NXDKIT_INLINE void BackwardInto(const float* dact, const float* gate, const float* up,
                                int64_t width, Out* dgate, Out* dup) {
  for (int64_t i = 0; i < width; ++i) {
    const float s = Sigmoid(gate[i]);
    Put(dact[i] * up[i] * s * (1.0f + gate[i] * (1.0f - s)), dgate + i);
    Put(dact[i] * gate[i] * s, dup + i);
  }
}

NXDKIT_CLONES void Forward(const float* gate, const float* up, int64_t width, float* act) {
  ForwardInto(gate, up, width, act);
}
NXDKIT_CLONES void Forward(const float* gate, const float* up, int64_t width, uint16_t* act) {
  ForwardInto(gate, up, width, act);
}
NXDKIT_CLONES void Backward(const float* dact, const float* gate, const float* up, int64_t width,
                            float* dgate, float* dup) {
  BackwardInto(dact, gate, up, width, dgate, dup);
}
NXDKIT_CLONES void Backward(const float* dact, const float* gate, const float* up, int64_t width,
                            uint16_t* dgate, uint16_t* dup) {
  BackwardInto(dact, gate, up, width, dgate, dup);
}

template <typename Out>
void ForwardRows(int64_t tokens, int64_t width, const float* gate_up, Out* act) {
  ParallelFor(tokens, 16, [&](int64_t t) {
    const float* row = gate_up + t * 2 * width;
    Forward(row, row + width, width, act + t * width);
  });
}

template <typename Out>
void BackwardRows(int64_t tokens, int64_t width, const float* dact, const float* gate_up,
                  Out* dgate_up) {
  ParallelFor(tokens, 16, [&](int64_t t) {
    const float* row = gate_up + t * 2 * width;
    Out* drow = dgate_up + t * 2 * width;
    Backward(dact + t * width, row, row + width, width, drow, drow + width);
  });
}

}  // namespace

void SwigluForward(int64_t tokens, int64_t width, const float* gate_up, float* act) {
  ForwardRows(tokens, width, gate_up, act);
}
void SwigluForward(int64_t tokens, int64_t width, const float* gate_up, uint16_t* act) {
  ForwardRows(tokens, width, gate_up, act);
}

void SwigluBackward(int64_t tokens, int64_t width, const float* dact, const float* gate_up,
                    float* dgate_up) {
  BackwardRows(tokens, width, dact, gate_up, dgate_up);
}
void SwigluBackward(int64_t tokens, int64_t width, const float* dact, const float* gate_up,
                    uint16_t* dgate_up) {
  BackwardRows(tokens, width, dact, gate_up, dgate_up);
}

}  // namespace nxdkit::trainer
