// PRIVATE to tools/: names from files, for a page.
#pragma once

#include <string>
#include <string_view>

namespace nxdkit::tool {

// Escaped for people; the middle of a very long name is left out.
std::string ShownName(std::string_view name);
// The same as a JSON string.
std::string NameJson(std::string_view name);

}  // namespace nxdkit::tool
