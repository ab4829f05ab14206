// LaTeX as one line of plain text, as far as the answers of math problems need it: fractions become
// a/b without parentheses, roots sqrt(x), symbols their characters; braces, fonts, sizes and
// unknown macros are dropped, and their contents stay.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nxdkit::trainer {

// nullopt when groups are nested deeper than 40. Otherwise linear in the length of `latex`.
std::optional<std::string> LatexToText(std::string_view latex);

}  // namespace nxdkit::trainer
