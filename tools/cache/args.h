// PRIVATE to tools/: the command line of neuron-cache.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/compile_cache/place.h"

namespace nxdkit::tool {

struct CacheArgs {
  std::string command;
  std::vector<std::string> paths;  // those of merge, push, pull and relocate
  std::optional<std::string> cache_dir;
  std::optional<std::string> max_size;
  std::optional<int> ttl_days;
  bool empty = false;
  bool damaged = false;
  std::optional<std::string> only_compiler;
  std::optional<std::string> kernels;
};

}  // namespace nxdkit::tool
