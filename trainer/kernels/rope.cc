#include "trainer/kernels/rope.h"

#include <cmath>

#include "lib/base/simd.h"
#include "trainer/base/parallel.h"

namespace nxdkit::trainer {
namespace {

// sign: 1 forward, -1 backward.
NXDKIT_CLONES void Turn(const float* cosines, const float* sines, float sign, int64_t half,
                        float* x) {
  float* low = x;
  float* high = x + half;
  for (int64_t i = 0; i < half; ++i) {
    const float a = low[i];
    const float b = high[i];
    low[i] = a * cosines[i] - b * (sign * sines[i]);
    high[i] = b * cosines[i] + a * (sign * sines[i]);
  }
}

void TurnAll(const Rows& rows, std::span<const int32_t> positions, const RopeTable& table,
             float sign, float* x) {
  ParallelFor(rows.tokens, 16, [&](int64_t t) {
    const int64_t position = positions[static_cast<size_t>(t)];
    for (int64_t g = 0; g < rows.groups; ++g)
      Turn(table.cosines(position), table.sines(position), sign, table.half(),
           x + t * rows.stride + g * rows.width);
  });
}

}  // namespace

RopeTable::RopeTable(const RopeRule& rule, int64_t positions)
    : half_(std::ssize(rule.frequencies)), positions_(positions) {
  cos_.reserve(static_cast<size_t>(half_ * positions));
  sin_.reserve(static_cast<size_t>(half_ * positions));
  for (int64_t position = 0; position < positions; ++position)
    for (const float frequency : rule.frequencies) {
      const float angle = static_cast<float>(position) * frequency;
      cos_.push_back(std::cos(angle) * rule.scale);
      sin_.push_back(std::sin(angle) * rule.scale);
    }
}

void RopeForward(const Rows& rows, std::span<const int32_t> positions, const RopeTable& table,
                 float* x) {
  TurnAll(rows, positions, table, 1.0f, x);
}

void RopeBackward(const Rows& rows, std::span<const int32_t> positions, const RopeTable& table,
                  float* dx) {
  TurnAll(rows, positions, table, -1.0f, dx);
}

}  // namespace nxdkit::trainer
