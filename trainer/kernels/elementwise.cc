#include "trainer/kernels/elementwise.h"

#include <algorithm>
#include <cstddef>

#include "trainer/base/lanes.h"
#include "trainer/base/parallel.h"

namespace nxdkit::trainer {
namespace {

constexpr int64_t kPiece = 1 << 14;

NXDKIT_CLONES void AddRange(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

NXDKIT_CLONES void ScaleRange(const float* from, float factor, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] * factor;
}

NXDKIT_CLONES void AddScaled(const float* from, float factor, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

NXDKIT_CLONES float RowProduct(const float* a, const float* b, int64_t count) {
  return Dot(a, b, count);
}

template <typename Out>
NXDKIT_CLONES void SwigluRow(const float* gate, const float* up, int64_t width, Out* act) {
  for (int64_t i = 0; i < width; ++i) Put(gate[i] * Sigmoid(gate[i]) * up[i], act + i);
}

template <typename Out>
NXDKIT_CLONES void SwigluRowBackward(const float* dact, const float* gate, const float* up,
                                     int64_t width, Out* dgate, Out* dup) {
  for (int64_t i = 0; i < width; ++i) {
    const float s = Sigmoid(gate[i]);
    Put(dact[i] * up[i] * s * (1.0f + gate[i] * (1.0f - s)), dgate + i);
    Put(dact[i] * gate[i] * s, dup + i);
  }
}

}  // namespace

void Copy(int64_t size, const float* from, float* to) {
  ParallelPieces(size, kPiece, [&](int64_t first, int64_t end) {
    std::copy(from + first, from + end, to + first);
  });
}

void Add(int64_t size, const float* from, float* to) {
  ParallelPieces(size, kPiece, [&](int64_t first, int64_t end) {
    AddRange(from + first, to + first, end - first);
  });
}

void ScaleRows(int64_t tokens, int64_t width, const float* factors, const float* from, float* to) {
  ParallelFor(tokens, 16,
              [&](int64_t t) { ScaleRange(from + t * width, factors[t], to + t * width, width); });
}

void AddToRows(int64_t tokens, int64_t width, const float* vector, float* rows) {
  ParallelFor(tokens, 16, [&](int64_t t) { AddRange(vector, rows + t * width, width); });
}

void AddRowSums(int64_t tokens, int64_t width, int64_t stride, const float* rows, float* sums) {
  ParallelPieces(width, 256, [&](int64_t first, int64_t end) {
    for (int64_t t = 0; t < tokens; ++t)
      AddRange(rows + t * stride + first, sums + first, end - first);
  });
}

void AddRowSums(int64_t tokens, int64_t width, int64_t stride, const uint16_t* bf16_rows,
                float* sums) {
  constexpr int64_t kAtOnce = 256;
  ParallelFor((width + kAtOnce - 1) / kAtOnce, 1, [&](int64_t piece) {
    const int64_t first = piece * kAtOnce;
    const int64_t count = std::min(kAtOnce, width - first);
    float row[kAtOnce];
    for (int64_t t = 0; t < tokens; ++t) {
      ConvertElements(Dtype::kBF16,
                      reinterpret_cast<const std::byte*>(bf16_rows + t * stride + first),
                      Dtype::kF32, reinterpret_cast<std::byte*>(row), count);
      AddRange(row, sums + first, count);
    }
  });
}

void Narrow(int64_t size, const float* from, uint16_t* to) {
  ParallelPieces(size, kPiece, [&](int64_t first, int64_t end) {
    ConvertElements(Dtype::kF32, reinterpret_cast<const std::byte*>(from + first), Dtype::kBF16,
                    reinterpret_cast<std::byte*>(to + first), end - first);
  });
}

void ScoreForward(int64_t rows, int64_t width, const float* x, const float* weight, float bias,
                  float* scores) {
  ParallelFor(rows, 16,
              [&](int64_t i) { scores[i] = RowProduct(x + i * width, weight, width) + bias; });
}

void ScoreBackward(int64_t rows, int64_t width, const float* x, const float* weight,
                   const float* gradient, float* dx, float* dweight) {
  ParallelFor(rows, 16, [&](int64_t i) { ScaleRange(weight, gradient[i], dx + i * width, width); });
  ParallelPieces(width, 256, [&](int64_t first, int64_t end) {
    for (int64_t i = 0; i < rows; ++i)
      AddScaled(x + i * width + first, gradient[i], dweight + first, end - first);
  });
}

template <typename Out>
void SwigluForward(int64_t tokens, int64_t width, const float* gate_up, Out* act) {
  ParallelFor(tokens, 16, [&](int64_t t) {
    const float* row = gate_up + t * 2 * width;
    SwigluRow(row, row + width, width, act + t * width);
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
    SwigluRowBackward(dact + t * width, row, row + width, width, drow, drow + width);
  });
}

template void SwigluBackward(int64_t, int64_t, const float*, const float*, float*);
template void SwigluBackward(int64_t, int64_t, const float*, const float*, uint16_t*);

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
