// The place of this machine's compile cache, and its settings in the compiler's flags.
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
  bool retry_failed = false;          // compile again after an earlier failure
  std::optional<uint64_t> max_bytes;  // --cache_size and --cache_ttl: limits of pruning
  std::optional<int64_t> keep_seconds;  //
  std::vector<std::string> flags;       // all others, for the compiler
};

// `folder` is the user's choice and wins; then --cache_dir in `cc_flags` (NEURON_CC_FLAGS), then
// `url` (NEURON_COMPILE_CACHE_URL: a path, file:// or an object store, which is not read), then the
// default. kUsage for flags that a shell could not split, and for a cache flag with a missing or
// wrong value.
Result<CachePlace> FindCache(const std::optional<std::string>& folder, std::string_view cc_flags,
                             std::string_view url);

// The folder in ROOT for the files of --cache_dir=ROOT, according to a guide of 2022.
inline constexpr char kOldPlace[] = "neuron-compile-cache";
// The folder in which a reader of `root` finds entries: kOldPlace, if it holds some and `root`
// itself has none of libneuronxla; otherwise `root`. Writers always use `root`.
Result<std::string> RootToRead(const std::string& root);
// For people: why another folder is read than the one they named.
std::string OldPlaceNote(const std::string& root);

}  // namespace nxdkit::neff
