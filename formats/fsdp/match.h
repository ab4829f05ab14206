// PRIVATE: which names the numbers of an optimizer's parameters stand for.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace nxdkit::fsdp {

// A choice, in order, of one of `of` candidates for each of `count` items: fits(i, j) says whether
// item i can be candidate j. The choice is unique where `first` and `last` are equal.
struct Matches {
  std::vector<size_t> first;  // each as early as it can be
  std::vector<size_t> last;   // each as late as it can be
};
// nullopt if there is none.
std::optional<Matches> MatchInOrder(size_t count, size_t of,
                                    const std::function<bool(size_t, size_t)>& fits);

}  // namespace nxdkit::fsdp
