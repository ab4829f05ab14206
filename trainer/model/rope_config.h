// PRIVATE to trainer/model. The rules of the rotary embedding, as transformers 5 reads them from a
// config.json: default, linear, dynamic, yarn, llama3.
#pragma once

#include "trainer/kernels/rope.h"
#include "trainer/model/config_reader.h"

namespace nxdkit::trainer {

// Failures go to the reader. For positions up to max_positions, where dynamic equals default.
RopeRule ReadRope(ConfigReader& reader, int64_t head_dim, int64_t max_positions);

}  // namespace nxdkit::trainer
