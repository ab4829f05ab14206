// Rotary position embedding with half-rotation pairing: dimensions i and i + D/2 of a head are
// rotated by position * frequency[i].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/kernels/rms_norm.h"

namespace nxdkit::trainer {

struct RopeRule {
  std::vector<float> frequencies;  // [D/2], radians per position
  float scale = 1;                 // factor of cosines and sines (YaRN's attention factor)
};

// cos and sin of every position's angles, [positions, D/2] each; angles in f32 as in the reference.
class RopeTable {
 public:
  RopeTable(const RopeRule& rule, int64_t positions);
  int64_t half() const { return half_; }
  int64_t positions() const { return positions_; }
  const float* cosines(int64_t position) const { return cos_.data() + position * half_; }
  const float* sines(int64_t position) const { return sin_.data() + position * half_; }

 private:
  int64_t half_;
  int64_t positions_;
  std::vector<float> cos_, sin_;
};

// Rotates every head in place. `positions` [tokens], each below table.positions(); rows.width == D.
void RopeForward(const Rows& rows, std::span<const int32_t> positions, const RopeTable& table,
                 float* x);
// The gradient is rotated back by the same angles, scaled as in the forward pass.
void RopeBackward(const Rows& rows, std::span<const int32_t> positions, const RopeTable& table,
                  float* dx);

}  // namespace nxdkit::trainer
