// Strings as Python writes them, and Python's methods of strings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/template/value.h"

namespace nxdkit::trainer::jinja {

// repr(text): 'it', "it's", '\n', '\u200b'.
void AppendPythonRepr(std::string_view text, std::string* out);

std::vector<std::string_view> Points(std::string_view text);  // each character's bytes
// str.strip(); `chars` is what is taken off, nullopt for white space.
std::string_view Strip(std::string_view text, const std::optional<std::string>& chars, bool left,
                       bool right);
// str.replace(); `most` < 0 is all.
Result<std::string> Replace(std::string_view text, std::string_view from, std::string_view to,
                            int64_t most, Budget& budget);
std::string Capitalize(std::string_view text);

}  // namespace nxdkit::trainer::jinja
