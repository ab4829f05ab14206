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
  int depth = 32;               // of lists and maps in one another
  size_t nodes = 5000;          // an alias counts what it stands for
  bool interpolations = false;  // ${...} is text, for a reader that knows what to do with it
};

// kCorrupt, with line and column, for what is not YAML, a key that occurs twice in one map, a key
// that is not a scalar, and a second document. kUnsupported for tags (!!python/...), merge keys
// (<<) and, unless they are asked for, interpolations (${...}), kLimit over the limits. Quoted
// scalars are text whatever they look like. An empty document is null.
Result<Value> ParseYaml(std::string_view text, const YamlLimits& limits = {});

std::string PlaceText(const Place& place);  // "line 3 column 7"; "" when it is from no file

}  // namespace nxdkit
