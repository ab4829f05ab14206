// One YAML document, read into a Value with the place of everything in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "lib/yaml/value.h"

namespace nxdkit {

struct YamlLimits {
  uint64_t bytes = uint64_t{1} << 20;
  int depth = 32;               // of nested lists and maps
  size_t nodes = 5000;          // an alias counts as its target
  bool interpolations = false;  // ${...} is text, for a reader that handles it
};

// kCorrupt, with line and column, for text that is not YAML, a key that occurs twice in one map, a
// key that is not a scalar, and a second document. kUnsupported for tags (!!python/...), merge keys
// (<<) and, unless allowed, interpolations (${...}), kLimit over the limits. Quoted scalars are
// text whatever they look like. An empty document is null.
Result<Value> ParseYaml(std::string_view text, const YamlLimits& limits = {});

std::string PlaceText(const Place& place);  // "line 3 column 7"; "" if not from a file

}  // namespace nxdkit
