// Matrix products through oneDNN: operands f32 or bf16, sums and results f32.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/tensor/dtype.h"

namespace nxdkit::trainer {

// A row-major matrix, not owned; its rows are `stride` elements apart.
struct Matrix {
  const void* data = nullptr;
  Dtype dtype = Dtype::kF32;  // or kBF16
  int64_t stride = 0;
  bool transposed = false;  // the product takes its transpose
};

inline Matrix Transposed(Matrix matrix) {
  matrix.transposed = !matrix.transposed;
  return matrix;
}

// Not thread-safe: use one per thread. Uses the thread's ParallelFor threads.
class MatrixEngine {
 public:
  MatrixEngine();
  ~MatrixEngine();
  MatrixEngine(MatrixEngine&&) noexcept;

  // c [m, n] = a [m, k] * b [k, n], or += with `add`. c's rows are `c_stride` floats apart. Both
  // operands have the same dtype. bf16 without hardware or library support is widened first: the
  // same result except for the order of the sums. kInternal when the library fails.
  Status Multiply(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c,
                  int64_t c_stride, bool add);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// f32 only, on the calling thread's share of threads when called inside a parallel loop.
// Thread-safe.
Status MultiplyF32(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c,
                   int64_t c_stride, bool add, float scale = 1.0f);

}  // namespace nxdkit::trainer
