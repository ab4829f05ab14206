// Paths as text: the file system is not asked (see lib/system/folders.h).
#pragma once

#include <string>
#include <string_view>

namespace nxdkit {

std::string JoinPath(std::string_view folder, std::string_view name);
std::string BaseName(std::string_view path);    // "a/b/" -> "b"
std::string ParentPath(std::string_view path);  // "a/b/" -> "a"; "b" -> "."

}  // namespace nxdkit
