// SwiGLU: act = silu(gate) * up, elementwise. All arrays f32; gate_up holds [gate | up] per token.
#pragma once

#include <cstdint>

namespace nxdkit::trainer {

// gate_up [T, 2 I] -> act [T, I].
void SwigluForward(int64_t tokens, int64_t width, const float* gate_up, float* act);
// dact [T, I] -> dgate_up [T, 2 I], set.
void SwigluBackward(int64_t tokens, int64_t width, const float* dact, const float* gate_up,
                    float* dgate_up);

}  // namespace nxdkit::trainer
