// The path to a value inside a saved value: the keys of dicts and the indices of lists that lead to
// it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace nxdkit::dtensor {

struct ValuePath {
  std::vector<std::variant<std::string, int64_t>> parts;
  std::string Text() const;    // "state.0.exp_avg"; not unique
  std::string Unique() const;  // different for different paths
};

}  // namespace nxdkit::dtensor
