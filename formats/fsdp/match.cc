#include "formats/fsdp/match.h"

namespace nxdkit::fsdp {

std::optional<Matches> MatchInOrder(size_t count, size_t of,
                                    const std::function<bool(size_t, size_t)>& fits) {
  Matches out;
  for (size_t j = 0; j < of && out.first.size() < count; ++j)
    if (fits(out.first.size(), j)) out.first.push_back(j);
  if (out.first.size() < count) return std::nullopt;
  out.last.resize(count);
  size_t left = count;
  for (size_t j = of; j-- > 0 && left > 0;)
    if (fits(left - 1, j)) out.last[--left] = j;
  return out;
}

}  // namespace nxdkit::fsdp
