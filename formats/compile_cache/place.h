// Where the compile cache of this machine is, and what the compiler's flags say about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::neff {

struct CachePlace {
  std::string root;
  bool enabled = true;
  std::string disabled_because;       // "NEURON_CC_FLAGS says --no_cache", "... is an object store"
  bool retry_failed = false;          // compile again what failed before
  std::optional<uint64_t> max_bytes;  // --cache_size and --cache_ttl: limits of pruning
  std::optional<int64_t> keep_seconds;  //
  std::vector<std::string> flags;       // of the compiler: all others
};

// `folder` is the user's own word and wins; then --cache_dir in `cc_flags` (NEURON_CC_FLAGS), then
// `url` (NEURON_COMPILE_CACHE_URL: a path, file:// or an object store, which is not read), then
// the default. kUsage for flags that a shell could not split, and for a flag of the cache whose
// value is missing or wrong.
Result<CachePlace> FindCache(const std::optional<std::string>& folder, std::string_view cc_flags,
                             std::string_view url);

// Of a guide of 2022: the files of --cache_dir=ROOT lie in this folder of ROOT.
inline constexpr char kOldPlace[] = "neuron-compile-cache";
// The folder of the entries that a reader of `root` finds: that old one, where it holds some and
// `root` itself has none of libneuronxla; else `root`. Who writes, writes into `root`.
Result<std::string> RootToRead(const std::string& root);
// For people: why another folder is read than the one they named.
std::string OldPlaceNote(const std::string& root);

}  // namespace nxdkit::neff
