// The shard files directly inside a folder, recognised by their names.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/nxd/shard_set.h"

namespace nxdkit::nxd {

// The ranks in the name of a main file: "dp_rank_00_tp_rank_03_pp_rank_00.pt". -1: not named.
struct RankName {
  int dp = -1, ep = -1, tp = -1, pp = -1;
  std::string suffix;  // what follows the ranks: ".pt", "", ".tensors"
};
// Parses parts of a key and a number joined by '_', in any order; nullopt for any other name. Ranks
// are at most 1,000,000.
std::optional<RankName> ParseRankName(std::string_view name);

// A folder entry as a shard, and its style.
using MaybeShard = std::optional<std::pair<ShardFile, SetStyle>>;
Result<MaybeShard> ShardOf(const std::string& folder, const std::string& name,
                           const Looker& look = {});

struct ShardsFound {
  std::vector<ShardFile> files;  // in the order of their names
  std::set<SetStyle> styles;
};

// Empty when there is no folder, or it holds an optimizer. Files of data parallel ranks above 0 are
// copies, and left out.
Result<ShardsFound> ShardsIn(const std::string& folder, const Looker& look = {});

// The optimizer state files in `folder` (optim/ of a tag), of every rank, in the order of their
// names.
Result<std::vector<ShardFile>> OptimizerFilesIn(const std::string& folder, const Looker& look = {});

bool IsV2(SetStyle style);

// The style of the whole set; kCorrupt when files of several styles are mixed. In v2 one rank may
// have all its tensors inside and another none.
Result<SetStyle> OneStyle(const std::set<SetStyle>& styles, const std::string& folder);

}  // namespace nxdkit::nxd
