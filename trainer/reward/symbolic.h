// Whether two expressions are equal for all values of their letters: + - * / ^ (or **),
// parentheses, products without a sign, single letters, numbers, pi, sqrt(x), ln(x).
//
// Rational expressions are compared exactly, as values in two prime fields at random points (the
// same ones always). Numbers with a decimal point and without letters are compared in f64, as the
// reference does: 0.5 = 1/2 and 0.2 = 1/5, but 0.1 + 0.2 != 0.3, and 16 digits of 1/3 are not 1/3.
// Where roots, logarithms, pi or other powers occur: in complex numbers at random points, to 1e-13.
#pragma once

#include <string_view>

namespace nxdkit::trainer {

// False also for what cannot be read, divides by zero, or is longer than 2000 bytes.
bool AreEqualExpressions(std::string_view a, std::string_view b);

}  // namespace nxdkit::trainer
