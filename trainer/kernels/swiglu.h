// SwiGLU: act = silu(gate) * up, elementwise; gate_up holds [gate | up] per token. What is an
// operand of a product next can be rounded to bf16 on the way.
#pragma once

#include <cstdint>

namespace nxdkit::trainer {

// gate_up [T, 2 I] -> act [T, I].
void SwigluForward(int64_t tokens, int64_t width, const float* gate_up, float* act);
void SwigluForward(int64_t tokens, int64_t width, const float* gate_up, uint16_t* act);
// dact [T, I] -> dgate_up [T, 2 I], set.
void SwigluBackward(int64_t tokens, int64_t width, const float* dact, const float* gate_up,
                    float* dgate_up);
void SwigluBackward(int64_t tokens, int64_t width, const float* dact, const float* gate_up,
                    uint16_t* dgate_up);

}  // namespace nxdkit::trainer
