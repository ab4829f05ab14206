// Whether two expressions are equal for all values of their letters: + - * / ^ (or **),
// parentheses, products without an operator, single letters, numbers, pi, sqrt(x), ln(x).
//
// Rational expressions are compared exactly, as values in two prime fields at random points (always
// the same ones). Numbers with a decimal point and without letters are compared in f64, as in the
// reference: 0.5 = 1/2 and 0.2 = 1/5, but 0.1 + 0.2 != 0.3, and 16 digits of 1/3 are not 1/3.
// Expressions with roots, logarithms, pi or other powers are compared as complex numbers at random
// points, to 1e-13.
#pragma once

#include <string_view>

namespace nxdkit::trainer {

// False also for expressions that cannot be parsed, divide by zero, or are longer than 2000 bytes.
bool AreEqualExpressions(std::string_view a, std::string_view b);

}  // namespace nxdkit::trainer
