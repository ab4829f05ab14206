// What the NxD world keeps beside shard sets and cannot be read as one: every row of FORMAT.md's
// decision table that is no SetStyle, refused by name.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "lib/system/looker.h"

namespace nxdkit::nxd {

// A file of NxD's older ZeRO-1: optim.dp_rank_DD.tp_rank_TT.
bool IsLegacyOptimizer(std::string_view name);

// An `optim` folder of rank files: their names are those of model shards, so it comes first.
Result<bool> IsOptimizerFolder(const std::string& path, const Looker& look = {});

// kUnsupported saying what the folder is and what to do; OK when it is none of these. By names
// only, and only for folders that hold no shard set.
Status RefuseByName(const std::string& path, const Looker& look = {});

}  // namespace nxdkit::nxd
