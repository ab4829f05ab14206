// Texts as numbers, as Python reads them: white space around them, a sign, digits of all scripts,
// underscores between digits; whatever the locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nxdkit::trainer {

// The number that all of the text is, as strtod reads it; infinite or 0 beyond the range of f64.
std::optional<double> ParseDouble(const std::string& text);

// float(text); "inf" and "nan" under all their names.
std::optional<double> ParsePythonFloat(std::string_view text);

struct PythonInt {
  int64_t value = 0;
  bool fits = true;  // in 64 bits; `value` means nothing when it does not
};
// int(text)
std::optional<PythonInt> ParsePythonInt(std::string_view text);

}  // namespace nxdkit::trainer
