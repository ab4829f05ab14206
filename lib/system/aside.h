// Where Staging puts an output that another one replaces, until it is removed:
// "OUTPUT.old.<pid>-<inode>.partial". Who is killed meanwhile leaves it there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nxdkit {

// The name of this process. The inode tells machines of one file system apart, the process who
// comes upon an inode that was given back meanwhile.
std::string AsideName(const std::string& output, uint64_t inode);

// The base name of the output that `name`, a base name as well, is aside of; nullopt for a name
// that AsideName does not make: nobody else's are touched.
std::optional<std::string_view> OutputOfAside(std::string_view name);

}  // namespace nxdkit
