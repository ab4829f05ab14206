// SwiGLU: act = silu(gate) * up, elementwise; gate_up holds [gate | up] per token. Out is float, or
// uint16_t: rounded to bf16, for what is an operand of a product next.
#pragma once

#include <cstdint>

namespace nxdkit::trainer {

// gate_up [T, 2 I] -> act [T, I].
template <typename Out>
void SwigluForward(int64_t tokens, int64_t width, const float* gate_up, Out* act);
// dact [T, I] -> dgate_up [T, 2 I], set.
template <typename Out>
void SwigluBackward(int64_t tokens, int64_t width, const float* dact, const float* gate_up,
                    Out* dgate_up);

}  // namespace nxdkit::trainer
