// The lines of a file of any size, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "lib/system/file.h"

namespace nxdkit {

// A line without its line feed, and its number from 1. `whole`: a line feed ends it; text behind
// the last line feed is a line too.
using LineTaker = std::function<Status(std::string_view line, uint64_t number, bool whole)>;

// Calls `each` for every line; its error ends the reading. kLimit, with the line, for a line of
// more than `max_bytes`, the size held in memory.
Status ForEachLine(const File& file, uint64_t max_bytes, const LineTaker& each);

}  // namespace nxdkit
