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

// How a {"source": N} is called among the words; `place` is the option, or the number of the
// argument. kUsage where there is no such source, or nothing is read there.
using NameSource = std::function<Result<std::string>(const std::string& place, int64_t number)>;

// kUsage with the place where the text is not one JSON object.
Result<Json> ParseRequest(const char* text);

// A text that must be there. kUsage for another value, an empty one, one with a zero byte.
Result<std::string> TextIn(const Json& request, std::string_view key);

// "tp": 8 becomes --tp=8, true --tp, false --no-tp where there is such an option and else nothing,
// a list one word for each entry, null nothing. `table` says which options there are.
Result<std::vector<std::string>> OptionWords(const Json* options, const OptionTable& table,
                                             const NameSource& name_source);

// The words behind the options.
Result<std::vector<std::string>> ArgumentWords(const Json* arguments,
                                               const NameSource& name_source);

}  // namespace nxdkit::tool
