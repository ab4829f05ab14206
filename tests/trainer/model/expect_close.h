// PRIVATE to tests. Outcomes of the decoder, compared relative to the largest value of each array.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/trainer/model/model_lab.h"

namespace nxdkit::trainer {

inline float Largest(const Floats& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// Relative to the largest value of the array: different orders of summation only change the
// rounding.
inline void ExpectClose(const Floats& found, const Floats& expected, float tolerance,
                        const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  const float limit = tolerance * Largest(expected);
  ASSERT_GT(limit, 0) << what << " is zero: nothing is compared";
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_TRUE(std::abs(found[i] - expected[i]) <= limit)
        << what << "[" << i << "]: " << found[i] << ", expected " << expected[i] << " +- " << limit;
}

inline void ExpectSameOutcome(const Outcome& found, const Outcome& expected, float tolerance) {
  ExpectClose(found.log_probs, expected.log_probs, tolerance, "log_probs");
  if (Largest(expected.entropies) > 0)  // the outcome has an lm_head
    ExpectClose(found.entropies, expected.entropies, tolerance, "entropies");
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients)
    ExpectClose(found.gradients.at(name), gradient, tolerance, name);
}

}  // namespace nxdkit::trainer
