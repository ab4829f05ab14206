// The values that options take, as numbers. `option` names the option in the message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "tools/cli/option_table.h"

namespace nxdkit::tool {

// A whole decimal number within `range`; kUsage says the option, the value found and the range.
Result<int64_t> ParseInteger(std::string_view option, std::string_view text, IntegerRange range);

// Bytes as ParseBytes of lib/base/text.h reads them, but not 0; kUsage says the option and the value.
Result<uint64_t> ParseSize(std::string_view option, std::string_view text);

// The shortest exact spelling with a binary unit: "512MiB", "1000B".
std::string SizeText(uint64_t bytes);

}  // namespace nxdkit::tool
