// PRIVATE to tools/: requests in JSON as the words of a command line, so that one table of options
// reads both.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/json/json.h"
#include "tools/cli/option_table.h"

namespace nxdkit::tool {

// The name of a {"source": N} among the words; `place` is the option, or the number of the
// argument. kUsage for an unknown source, or a place that is not read.
using NameSource = std::function<Result<std::string>(const std::string& place, int64_t number)>;

// kUsage with the position where the text is not one JSON object.
Result<Json> ParseRequest(const char* text);

// A required text. kUsage for another type, an empty text, or one with a zero byte.
Result<std::string> TextIn(const Json& request, std::string_view key);

// "tp": 8 becomes --tp=8, true --tp, false --no-tp if there is such an option and else nothing, a
// list one word for each entry, null nothing. `table` has the known options.
Result<std::vector<std::string>> OptionWords(const Json* options, const OptionTable& table,
                                             const NameSource& name_source);

// The words after the options.
Result<std::vector<std::string>> ArgumentWords(const Json* arguments,
                                               const NameSource& name_source);

}  // namespace nxdkit::tool
