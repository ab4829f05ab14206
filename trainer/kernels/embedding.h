// Vocabulary-parallel token embedding: this rank holds rows [first_row, first_row + rows).
#pragma once

#include <cstdint>
#include <span>

#include "lib/tensor/dtype.h"

namespace nxdkit::trainer {

// out [T, H]: the token's row where this rank holds it, zero elsewhere; the sum over the ranks is
// the embedding. weight [rows, H], f32 or bf16.
void EmbeddingForward(std::span<const int32_t> ids, int64_t first_row, int64_t rows, int64_t width,
                      Dtype dtype, const void* weight, float* out);

// dweight [rows, H] += rows of dout [T, H], in the order of the tokens.
void EmbeddingBackward(std::span<const int32_t> ids, int64_t first_row, int64_t rows, int64_t width,
                       const float* dout, float* dweight);

}  // namespace nxdkit::trainer
