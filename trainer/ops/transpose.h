// PRIVATE to trainer/ops.
#pragma once

#include <cstdint>

namespace nxdkit::trainer {

// to [columns, rows] = from [rows, columns] transposed; elements of two bytes, on this rank's
// threads.
void Transpose(int64_t rows, int64_t columns, const uint16_t* from, int64_t from_stride,
               uint16_t* to, int64_t to_stride);

}  // namespace nxdkit::trainer
