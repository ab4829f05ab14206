// What else lies in the folder of a bundle's weights: files, folders and links that a refresh does
// not write. It replaces the weights and nothing else, so the next version gets copies of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::rollout {

// They are meant to be notes and small configurations: each refresh copies them.
inline constexpr uint64_t kMaxForeignBytes = 256 << 20;
inline constexpr size_t kMaxForeignEntries = 10'000;

// Paths below `weights`, a folder before what is in it; links are not followed. `ours`: names in
// `weights` itself that are no foreign ones. kUnsupported, naming the first that is too much, over
// the limits and for what is neither a file, a folder nor a link.
Result<std::vector<std::string>> ListForeign(const std::string& weights,
                                             const std::vector<std::string>& ours);

// Copies them, links as links, with their modes (lib/system/copy_file.h: KeepAccess). Nothing may
// be there under their names.
Status CopyForeign(const std::vector<std::string>& paths, const std::string& from,
                   const std::string& to, bool sync);

}  // namespace nxdkit::rollout
