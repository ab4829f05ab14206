// Rows of JSON Lines and of JSON arrays, one after the other. PRIVATE header: it exposes parsed
// JSON; include it from .cc files only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lib/json/json.h"

namespace nxdkit::trainer {

// Calls `each(row, line)` for every row: a JSON object and the line where it begins (from 1). A
// file whose first character is '[' is an array of objects, any other file has one object per line;
// empty lines are only counted. One row is in memory at a time, and the whole text of an array.
//
// Errors, those of `each` too, name the file, with "line N" in the message. kCorrupt for text that
// is not JSON and for rows that are not objects, kLimit for rows over 64 MiB and arrays over 4 GiB.
using EachRow = std::function<Status(const Json& row, uint64_t line)>;
Status ReadRows(const std::string& path, const EachRow& each);

inline constexpr uint64_t kMaxRowBytes = uint64_t{64} << 20;
// One row; errors have "<what> <number>" in the message: "line 3".
Status ReadRow(std::string_view text, std::string_view what, uint64_t number, const EachRow& each);

}  // namespace nxdkit::trainer
