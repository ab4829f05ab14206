// Names inside an archive, checked before anything is made of them.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::tar {

inline constexpr size_t kMaxNameBytes = 4096;
inline constexpr size_t kMaxDepth = 64;

// The name as a path below the output: no "." parts, no trailing "/", `strip` leading parts
// dropped. Empty when nothing is left (the top folder itself). kCorrupt for an absolute name, "..",
// NUL bytes, and what is over the limits.
Result<std::string> SafeName(std::string_view name, int strip);

}  // namespace nxdkit::tar
