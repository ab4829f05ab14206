// The weights of a product, laid out once for many products with few rows, as in decoding.
//
// Every element of a result is one chain of multiply-adds over k, in order, in one accumulator. So
// a row of the result has the same bits whatever the other rows are, however many there are,
// wherever it is among them, and however many threads work: no BLAS library promises that.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "trainer/kernels/matmul.h"

namespace nxdkit::trainer {

// b [k, n] as panels of 64 columns, padded with zeros; bf16 in pairs of k. Movable; thread-safe.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // `weight` [n, k] as a checkpoint stores it: b is its transpose. f32 or bf16. kLimit when there
  // is too little memory.
  static Result<PackedMatrix> Make(int64_t n, int64_t k, const Matrix& weight);

  int64_t bytes() const { return bytes_; }

  // c [m, n] = a [m, k] * b; rows of a are `a_stride` and rows of c `c_stride` floats apart. A bf16
  // matrix first rounds a to bf16, into `narrow`; sums are f32. Runs on this rank's threads.
  void Multiply(int64_t m, const float* a, int64_t a_stride, float* c, int64_t c_stride,
                std::vector<uint16_t>& narrow) const;

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  int64_t n_ = 0;
  int64_t k_ = 0;
  int64_t bytes_ = 0;
  Dtype dtype_ = Dtype::kF32;
  std::unique_ptr<void, Free> panels_;
};

}  // namespace nxdkit::trainer
