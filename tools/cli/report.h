// PRIVATE to tools/: the outcome of a command as lines on stderr and as the one JSON document.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/choice.h"
#include "lib/base/error.h"
#include "lib/json/json.h"

namespace nxdkit::tool {

// "nxd-convert: error: model.pt: offset 17: ..." and, where there is one, a "hint: ..." line. The
// entries of "3 problems in ...:\n[1] ...\n[2] ...\n[3] ..." are a line each.
// Control characters of names are escaped.
std::string ErrorLines(std::string_view tool, const Error& error, bool color);
std::string WarningLine(std::string_view tool, std::string_view message, bool color);

// The document, one line with its line feed. `error` may be null; its unknown keys are left out,
// and so is an empty `chosen`. Bytes that are not UTF-8 become U+FFFD.
std::string JsonDocument(std::string_view tool, int exit_code, const Error* error, const Said& said,
                         Json fields);

const char* ToolVersion();

}  // namespace nxdkit::tool
