// PRIVATE: the inner loop of merging a LoRA adapter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/artifact/words.h"

namespace nxdkit::adapter {

// The columns of A that are processed together.
inline constexpr int kLoraTile = 16;

// out[i, j] += scale * (b[i, 0] a[0, j] + b[i, 1] a[1, j] + ...), in F32: the products are rounded
// and added in this order, whatever the instruction set and however the work is cut. For 0 <= i <
// rows and first <= j < end of one tile.
//   a     [rank, kLoraTile], packed
//   b     [rows, rank], packed
//   out   F32 of any alignment: element [0, 0] of the tile's rows, which are `stride` bytes apart
void AddLoraTile(const float* a, const float* b, int64_t rank, int64_t rows, float scale,
                 std::byte* out, int64_t stride, int first, int end);

}  // namespace nxdkit::adapter
