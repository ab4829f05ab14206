// The other contents of a bundle's weights folder: files, folders and links that a refresh does not
// write. A refresh replaces only the weights, so the next version gets copies of the rest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::rollout {

// The files should be notes and small configurations: each refresh copies them.
inline constexpr uint64_t kMaxForeignBytes = 256 << 20;
inline constexpr size_t kMaxForeignEntries = 10'000;

// Lists paths below `weights`, folders before their contents; links are not followed. `ours`: names
// in `weights` itself that do not count as foreign. kUnsupported, naming the first path that is too
// much, over the limits and for anything but files, folders and links.
Result<std::vector<std::string>> ListForeign(const std::string& weights,
                                             const std::vector<std::string>& ours);

// Copies them, links as links, with their modes (lib/system/copy_file.h: KeepAccess). No file of
// the same name may exist at the destination.
Status CopyForeign(const std::vector<std::string>& paths, const std::string& from,
                   const std::string& to, bool sync);

}  // namespace nxdkit::rollout
