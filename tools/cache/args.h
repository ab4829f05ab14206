// PRIVATE to tools/: the command line of neuron-cache.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/compile_cache/place.h"

namespace nxdkit::tool {

struct CacheArgs {
  std::string command;
  std::vector<std::string> words;  // paths, or the words of a command
  std::optional<std::string> cache_dir;
  std::optional<std::string> max_size;
  std::optional<int> ttl_days;
  bool empty = false;
  bool damaged = false;
  std::optional<std::string> only_compiler;
  std::optional<std::string> kernels;
  std::optional<std::string> compiler;  // with compile and warm
  std::optional<std::string> target;
  std::optional<int> jobs;
  std::optional<std::string> memory_per_job;
  std::optional<int> retries;
  int job_timeout = 28800;  // seconds
  std::optional<std::string> work_dir;
  bool ignore_error = false;
  std::optional<std::string> used_by;  // with pack
};

}  // namespace nxdkit::tool
