// From argv to the values behind an option table. CLI11 does the parsing; the house rules come
// before it: `_` for `-` in long names, no value for a flag, no empty value, no swallowed option.
#pragma once

#include <string>
#include <vector>

#include "lib/base/error.h"
#include "tools/cli/option_table.h"

namespace nxdkit::tool {

using GivenRows = std::vector<const OptionRow*>;

// `arguments` is argv without the program's name. Stores every option that was given, in table
// order, and returns the rows; an option given more than once takes its last value unless the row
// repeats. Every failure is kUsage and names the option: an unknown one comes with the closest
// known name.
Result<GivenRows> ParseArguments(const OptionTable& table,
                                 const std::vector<std::string>& arguments);

// kUsage when a required row is not among `given`. Apart from parsing, so that `--help` alone is
// enough.
Status CheckRequired(const OptionTable& table, const GivenRows& given);

// Whether `--json` stands among the options, also where the rest cannot be parsed, so that a usage
// error can be reported as JSON too.
bool WantsJson(const std::vector<std::string>& arguments);

}  // namespace nxdkit::tool
