// PRIVATE: which names stand for the numbers of an optimizer's parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace nxdkit::fsdp {

// `count` things, each of them one of `of` others, in one order: fits(i, j) says whether thing i
// can be the other j. There is one way to choose where `first` and `last` are the same.
struct Matches {
  std::vector<size_t> first;  // each as early as it can be
  std::vector<size_t> last;   // each as late as it can be
};
// nullopt: there is none.
std::optional<Matches> MatchInOrder(size_t count, size_t of,
                                    const std::function<bool(size_t, size_t)>& fits);

}  // namespace nxdkit::fsdp
