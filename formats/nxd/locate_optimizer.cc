#include <fmt/core.h>

#include <algorithm>

#include "formats/nxd/grid.h"
#include "formats/nxd/optimizer_set.h"
#include "formats/nxd/refuse.h"
#include "formats/nxd/shards_in.h"
#include "lib/system/folders.h"

namespace nxdkit::nxd {
namespace {

constexpr std::string_view kFull = "full_";
constexpr std::string_view kLeaveOut = "--no-optimizer leaves the optimizer's state out";

// The main files in `names`; `expert`: an expert parallel one, which ends the search.
struct Found {
  std::vector<ShardFile> sharded;
  std::vector<ShardFile> full;
  std::string expert;
};

Found FilesAmong(const std::vector<std::string>& names, const std::string& folder) {
  Found found;
  for (const std::string& name : names) {
    const bool full = name.starts_with(kFull);
    const auto ranks = ParseRankName(std::string_view(name).substr(full ? kFull.size() : 0));
    if (!ranks || ranks->pp < 0 || ranks->suffix != ".pt") continue;
    if (ranks->ep >= 0) found.expert = name;
    ShardFile file{JoinPath(folder, name), ranks->tp, ranks->pp, 0, std::max(0, ranks->dp)};
    (full ? found.full : found.sharded).push_back(std::move(file));
  }
  return found;
}

}  // namespace

std::string_view OptimizerStyleName(OptimizerStyle style) {
  constexpr std::string_view kNames[] = {"zero1", "merged", "replicated"};
  return kNames[static_cast<size_t>(style)];
}

std::string OptimizerFileName(OptimizerStyle style, int dp_rank, int tp_rank, int pp_rank) {
  if (style == OptimizerStyle::kMerged)
    return fmt::format("optim/full_tp_rank_{:02d}_pp_rank_{:02d}.pt", tp_rank, pp_rank);
  return fmt::format("optim/dp_rank_{:02d}_tp_rank_{:02d}_pp_rank_{:02d}.pt", dp_rank, tp_rank,
                     pp_rank);
}

namespace {

// The legacy form lies beside the shards, not in optim/.
Status RefuseLegacy(const std::string& folder) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(folder));
  const auto legacy = std::ranges::find_if(names, IsLegacyOptimizer);
  if (legacy == names.end()) return OkStatus();
  return Error(Errc::kUnsupported,
               fmt::format("a legacy ZeRO-1 optimizer ({}) is next to the model; only the forms "
                           "in optim/ can be resharded",
                           *legacy))
      .in(folder)
      .hint(kLeaveOut);
}

}  // namespace

Result<std::optional<OptimizerLocation>> LocateOptimizer(const std::string& tag_folder) {
  NXDKIT_TRY(RefuseLegacy(tag_folder));
  OptimizerLocation out;
  out.folder = JoinPath(tag_folder, "optim");
  if (KindOf(out.folder) != PathKind::kFolder) return std::optional<OptimizerLocation>();
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(out.folder));
  if (names.empty()) return std::optional<OptimizerLocation>();
  Found found = FilesAmong(names, out.folder);
  if (!found.expert.empty())
    return Error(Errc::kUnsupported,
                 fmt::format("the optimizer is expert parallel ({}), whose parameter numbers are "
                             "shifted by expert rank",
                             found.expert))
        .in(out.folder)
        .hint(kLeaveOut);
  if (!found.sharded.empty() && !found.full.empty())
    return Error(
               Errc::kCorrupt,
               fmt::format("a merged optimizer and a sharded one are here: {} and {}",
                           BaseName(found.full.front().path), BaseName(found.sharded.front().path)))
        .in(out.folder)
        .hint("move away the one that is not to be used");
  out.merged = !found.full.empty();
  out.files = std::move(out.merged ? found.full : found.sharded);
  if (out.files.empty()) {
    if (const std::optional<Error> refused = RefuseByName(out.folder))
      return Error(refused->code(), refused->message()).in(out.folder).hint(kLeaveOut);
    return Error(Errc::kUnsupported,
                 fmt::format("no optimizer file known, such as dp_rank_00_tp_rank_00_pp_rank_00.pt;"
                             " found {}",
                             names.front()))
        .in(out.folder);
  }
  NXDKIT_ASSIGN(const GridSizes sizes, OrderGrid(out.files, out.folder));
  out.tp = sizes.tp;
  out.pp = sizes.pp;
  out.dp = sizes.dp;
  return std::optional<OptimizerLocation>(std::move(out));
}

}  // namespace nxdkit::nxd
