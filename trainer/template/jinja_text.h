// Strings as Python and JSON write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nxdkit::trainer::jinja {

void AppendUtf8(uint32_t point, std::string* out);

// repr(text): 'it', "it's", '\n', '\u200b'.
void AppendPythonRepr(std::string_view text, std::string* out);

// json.dumps(text, ensure_ascii=ascii).
void AppendJsonString(std::string_view text, bool ascii, std::string* out);

}  // namespace nxdkit::trainer::jinja
