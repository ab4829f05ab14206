// PRIVATE: YAML files that are not configurations of NxD Training, by kind.
#pragma once

#include <string_view>

#include "lib/yaml/value.h"

namespace nxdkit::nxd {

// "a configuration of axolotl", "" for an unknown one, and what to do instead of naming it.
struct YamlStranger {
  std::string_view what;
  std::string_view hint;
};
YamlStranger StrangerOf(const Value& root);

}  // namespace nxdkit::nxd
