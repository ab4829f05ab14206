#include "formats/nxd/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "lib/base/errors.h"
#include "lib/system/paths.h"

namespace nxdkit::nxd {
namespace {

using Place = std::array<int, 4>;  // tp, pp, ep, dp
using Grid = std::map<Place, const ShardFile*>;

constexpr size_t kShown = 4;

std::string PlaceText(const Place& place, const GridSizes& sizes) {
  std::string text = fmt::format("tp_rank_{:02d}_pp_rank_{:02d}", place[0], place[1]);
  if (sizes.ep > 1) text += fmt::format("_ep_rank_{:02d}", place[2]);
  if (sizes.dp > 1) text += fmt::format("_dp_rank_{:02d}", place[3]);
  return text;
}

// The first places without a file. There are fewer files than places, so the walk ends soon.
std::vector<std::string> Missing(const Grid& grid, const GridSizes& sizes) {
  std::vector<std::string> missing;
  Place at{};
  const Place ends = {sizes.tp, sizes.pp, sizes.ep, sizes.dp};
  while (missing.size() < kShown) {
    if (!grid.contains(at)) missing.push_back(PlaceText(at, sizes));
    size_t axis = ends.size();
    while (axis > 0 && ++at[axis - 1] == ends[axis - 1]) at[--axis] = 0;
    if (axis == 0) break;
  }
  return missing;
}

// Ranks are numbers below 2^20: four of them fit 128 bits.
unsigned __int128 Places(const GridSizes& sizes) {
  unsigned __int128 places = 1;
  for (const int size : {sizes.tp, sizes.pp, sizes.ep, sizes.dp})
    places *= static_cast<unsigned>(size);
  return places;
}

Error Holes(const Grid& grid, const GridSizes& sizes, const std::string& origin) {
  const unsigned __int128 expected = Places(sizes);
  const std::vector<std::string> missing = Missing(grid, sizes);
  const bool more = expected - grid.size() > missing.size();
  constexpr unsigned __int128 kMost = UINT64_MAX;
  return Corrupt(
      "incomplete set: {} shard files found, {} expected for tp {} pp {}{}{}{}; missing {}{}",
      grid.size(), static_cast<uint64_t>(std::min(expected, kMost)), sizes.tp, sizes.pp,
      sizes.ep > 1 ? fmt::format(" ep {}", sizes.ep) : "",
      sizes.dp > 1 ? fmt::format(" dp {}", sizes.dp) : "",
      origin.empty() ? "" : fmt::format(" by {}", origin), fmt::join(missing, ", "),
      more ? ", ..." : "");
}

}  // namespace

Result<GridSizes> OrderGrid(std::vector<ShardFile>& files, const std::string& folder) {
  GridSizes sizes;
  Grid grid;
  for (const ShardFile& file : files) {
    sizes.tp = std::max(sizes.tp, file.tp + 1);
    sizes.pp = std::max(sizes.pp, file.pp + 1);
    sizes.ep = std::max(sizes.ep, file.ep + 1);
    sizes.dp = std::max(sizes.dp, file.dp + 1);
    const auto [it, added] = grid.emplace(Place{file.tp, file.pp, file.ep, file.dp}, &file);
    if (!added)
      return Corrupt("two files hold tp rank {}, pp rank {}: {} and {}", file.tp, file.pp,
                     BaseName(it->second->path), BaseName(file.path))
          .in(folder);
  }
  if (grid.size() != Places(sizes)) return Holes(grid, sizes, "").in(folder);
  std::vector<ShardFile> ordered;
  for (const auto& [place, file] : grid) ordered.push_back(*file);
  files = std::move(ordered);
  return sizes;
}

Status RequireGrid(const std::vector<ShardFile>& files, const GridSizes& sizes,
                   const std::string& origin) {
  Grid grid;
  for (const ShardFile& file : files)
    grid.emplace(Place{file.tp, file.pp, file.ep, file.dp}, &file);
  return grid.size() == Places(sizes) ? OkStatus() : Status(Holes(grid, sizes, origin));
}

}  // namespace nxdkit::nxd
