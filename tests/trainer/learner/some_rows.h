// PRIVATE to tests. Rows of a tiny model and a loss of them, for meshes that are compared by bits.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "trainer/learner/mesh_model.h"

namespace nxdkit::trainer {

inline std::vector<Row> SomeRows() {
  std::vector<Row> rows(8);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < 2 + r % 3; ++i)
      rows[r].prompt.push_back(static_cast<int32_t>((r * 13 + i * 5 + 1) % 64));
    for (size_t i = 0; i < 1 + (r * 7) % 5; ++i)
      rows[r].response.push_back(static_cast<int32_t>((r * 3 + i * 11 + 2) % 64));
  }
  return rows;
}

inline Status SomeLoss(int, bool, std::span<const size_t> chosen, std::span<const float> log_probs,
                       std::span<float> gradient) {
  const std::vector<Row> rows = SomeRows();
  size_t at = 0;
  for (const size_t r : chosen)
    for (size_t i = 0; i < rows[r].response.size(); ++i, ++at)
      gradient[at] = -std::exp(log_probs[at]) / static_cast<float>(r + 1);
  return OkStatus();
}

}  // namespace nxdkit::trainer
