// Words for messages: what is safe to print, and what was probably meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nxdkit::tool {

// Control characters (below 0x20, 0x7f) as \n, \t, \x1b...: a name from a file must not move the
// cursor or fake a line.
std::string EscapeControl(std::string_view text);

// The word nearest to `found` by edit distance, when it is near enough to have been meant.
std::optional<std::string> ClosestWord(std::string_view found,
                                       const std::vector<std::string>& words);

}  // namespace nxdkit::tool
