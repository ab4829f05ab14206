// The weights of one rank in the form that the forward pass uses: one flat array in the shape of
// its ParamTable, f32 or bf16. Owned by the rank's thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/tensor/dtype.h"
#include "trainer/model/param_table.h"

namespace nxdkit::trainer {

class Weights {
 public:
  // All zero. `dtype` is kF32 or kBF16.
  Weights(const ParamTable& table, Dtype dtype);

  Dtype dtype() const { return dtype_; }
  std::byte* bytes() { return bytes_.data(); }
  const std::byte* bytes() const { return bytes_.data(); }
  // Empty for the other dtype.
  std::span<float> f32();
  std::span<uint16_t> bf16();

  const std::byte* at(const Slot& slot) const;
  // A parameter of one dimension, or of one row, as f32.
  const float* vector(const Slot& slot) const;
  // Call it after every change of the array: vectors are kept in f32.
  void Changed();

 private:
  const ParamTable* table_;
  Dtype dtype_;
  std::vector<std::byte> bytes_;
  std::vector<float> vectors_;  // such slots consecutively
  std::vector<int64_t> vector_at_;
};

}  // namespace nxdkit::trainer
