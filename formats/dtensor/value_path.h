// A value inside of what was saved as one: the keys of dicts and the numbers of items of lists that
// lead to it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace nxdkit::dtensor {

struct ValuePath {
  std::vector<std::variant<std::string, int64_t>> parts;
  std::string Text() const;    // "state.0.exp_avg"; several paths may have the same
  std::string Unique() const;  // no two paths have the same
};

}  // namespace nxdkit::dtensor
