// The first of two ways to bring an answer into one form, that of the MATH data set: two answers
// with the same form are equal.
#pragma once

#include <string>
#include <string_view>

namespace nxdkit::trainer {

// Units, sizes of brackets, spaces and "x =" go; \frac and \sqrt get their braces; 0.5 and a/b
// become fractions. Where the text cannot be brought into the form it comes back trimmed only.
std::string NormalizeMathd(std::string_view answer);

}  // namespace nxdkit::trainer
