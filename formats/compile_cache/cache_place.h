// Where the compile cache of this machine is, and what the compiler's flags say about it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nxdkit::neff {

struct CachePlace {
  std::string root;
  bool enabled = true;
  std::string disabled_because;    // "NEURON_CC_FLAGS says --no_cache", "... is an object store"
  bool retry_failed = false;       // compile again what failed before
  std::vector<std::string> flags;  // of the compiler: without those that speak of the cache
};

// `folder` is the user's own word and wins; then --cache_dir in `cc_flags` (NEURON_CC_FLAGS), then
// `url` (NEURON_COMPILE_CACHE_URL: a path, file:// or an object store, which is not read), then
// the default. Flags are parted by white space; "--cache_dir DIR" and "--cache_dir=DIR" both count.
CachePlace FindCache(const std::optional<std::string>& folder, std::string_view cc_flags,
                     std::string_view url);

}  // namespace nxdkit::neff
