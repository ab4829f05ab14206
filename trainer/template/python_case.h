// Case mappings as in Python's str, including characters that map to several: the upper case of a
// sharp s is SS.
#pragma once

#include <string>
#include <string_view>

namespace nxdkit::trainer::jinja {

std::string PythonLower(std::string_view text);
std::string PythonUpper(std::string_view text);
// As the first letter of a word.
std::string PythonTitle(std::string_view character);

}  // namespace nxdkit::trainer::jinja
