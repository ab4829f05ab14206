// Parses numbers from text with Python's rules: surrounding white space, a sign, digits of all
// scripts, underscores between digits; in any locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nxdkit::trainer {

// The number that the whole text spells, as strtod reads it; infinite or 0 beyond the range of f64.
std::optional<double> ParseDouble(const std::string& text);

// float(text); "inf" and "nan" under all their names.
std::optional<double> ParsePythonFloat(std::string_view text);

struct PythonInt {
  int64_t value = 0;
  bool fits = true;  // into 64 bits; otherwise `value` is meaningless
};
// int(text)
std::optional<PythonInt> ParsePythonInt(std::string_view text);

}  // namespace nxdkit::trainer
