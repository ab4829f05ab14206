#include "trainer/kernels/embedding.h"

#include <algorithm>

#include "trainer/base/parallel.h"

namespace nxdkit::trainer {

void EmbeddingForward(std::span<const int32_t> ids, int64_t first_row, int64_t rows, int64_t width,
                      Dtype dtype, const void* weight, float* out) {
  const std::byte* bytes = static_cast<const std::byte*>(weight);
  const int64_t row_bytes = width * ElementBytes(dtype);
  ParallelFor(std::ssize(ids), 16, [&](int64_t t) {
    const int64_t row = ids[static_cast<size_t>(t)] - first_row;
    std::byte* to = reinterpret_cast<std::byte*>(out + t * width);
    if (row >= 0 && row < rows)
      ConvertElements(dtype, bytes + row * row_bytes, Dtype::kF32, to, width);
    else
      std::fill_n(out + t * width, width, 0.0f);
  });
}

void EmbeddingBackward(std::span<const int32_t> ids, int64_t first_row, int64_t rows, int64_t width,
                       const float* dout, float* dweight) {
  ParallelPieces(width, 64, [&](int64_t first, int64_t end) {
    for (size_t t = 0; t < ids.size(); ++t) {
      const int64_t row = ids[t] - first_row;
      if (row < 0 || row >= rows) continue;
      const float* from = dout + static_cast<int64_t>(t) * width;
      float* to = dweight + row * width;
      for (int64_t i = first; i < end; ++i) to[i] += from[i];
    }
  });
}

}  // namespace nxdkit::trainer
