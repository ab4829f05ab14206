// PRIVATE: which names stand for the numbers of an optimizer's parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace nxdkit::fsdp {

// `count` things, each one of `of` later ones, in their order: fits(i, j) says whether thing i can
// be j. The only way to choose them; `first` and `last` differ where there are several.
struct Matches {
  std::vector<size_t> first;  // each as early as it can be
  std::vector<size_t> last;   // each as late as it can be
  bool only() const { return first == last; }
};
// nullopt: there is none.
std::optional<Matches> MatchInOrder(size_t count, size_t of,
                                    const std::function<bool(size_t, size_t)>& fits);

}  // namespace nxdkit::fsdp
