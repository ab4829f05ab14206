// The first of two normal forms of an answer, that of the MATH data set: answers with the same form
// are equal.
#pragma once

#include <string>
#include <string_view>

namespace nxdkit::trainer {

// Removes units, sizes of brackets, spaces and "x ="; adds the braces of \frac and \sqrt; turns 0.5
// and a/b into fractions. If that is impossible, the text is only trimmed.
std::string NormalizeMathd(std::string_view answer);

}  // namespace nxdkit::trainer
